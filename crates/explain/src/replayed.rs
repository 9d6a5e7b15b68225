//! What a replayed policy saves per completion, beside the recorded choices.

use serde::Serialize;

use crate::bootstrap::{BLOCKS, add_bootstrap_interval, draw_block_counts};

/// A replayed policy beside the recorded choices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayedHelp {
    /// Name of the replayed policy set.
    pub policy: String,
    /// Time saved per completion.
    #[serde(flatten)]
    pub saving: ReplayedSaving,
    /// Idle states whose exits are declared, because no request met any; the others' are estimated from requests.
    pub declared_exits: Vec<String>,
    /// Added power in mW, with known machine figures; negative: saved.
    pub added_mw: Option<f64>,
}

/// Number of equal time blocks for a replay whose savings get an interval.
pub const REPLAY_BLOCKS: usize = BLOCKS;

/// I/O completions in a block of time, and the exit latencies that they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayedBlock {
    /// Number of I/O completions.
    pub completions: u64,
    /// Summed exit latencies under the recorded choices, in ns.
    pub recorded_exit_ns: u64,
    /// Summed exit latencies under the replayed policy, in ns.
    pub policy_exit_ns: u64,
}

/// Exit latency that a policy saves per completion, over all completions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReplayedSaving {
    /// Mean time saved per completion, in ns; negative: added.
    pub saved_ns: f64,
    /// The mean's 95 % interval, in ns; `None` where fewer than 20 blocks have completions.
    pub saved_interval_ns: Option<[f64; 2]>,
}

impl ReplayedSaving {
    /// Estimates a policy's saving from blocks of time. Each completion counts the same, whatever its block. `None` without
    /// completions.
    pub fn from_blocks(blocks: &[ReplayedBlock]) -> Option<Self> {
        let with_completions: Vec<ReplayedBlock> = blocks
            .iter()
            .filter(|block| block.completions > 0)
            .copied()
            .collect();
        let saved_ns = saved_per_completion(with_completions.iter().map(|block| (1, block)))?;
        let drawn = draw_block_counts(with_completions.len())
            .filter_map(|counts| saved_per_completion(counts.into_iter().zip(&with_completions)));
        let interval = (with_completions.len() >= BLOCKS / 2)
            .then(|| add_bootstrap_interval(saved_ns, drawn.collect()))
            .flatten();
        Some(Self {
            saved_ns,
            saved_interval_ns: interval.map(|interval| [interval.low_ns, interval.high_ns]),
        })
    }
}

/// Exit latency saved over completions, in ns, with each block counted so many times; `None` without completions.
fn saved_per_completion<'a>(blocks: impl Iterator<Item = (u32, &'a ReplayedBlock)>) -> Option<f64> {
    let (mut saved, mut completions) = (0.0, 0.0);
    for (times, block) in blocks {
        let times = f64::from(times);
        saved += times * (block.recorded_exit_ns as f64 - block.policy_exit_ns as f64);
        completions += times * block.completions as f64;
    }
    (completions > 0.0).then(|| saved / completions)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]
mod tests {
    use super::*;

    fn block(completions: u64, recorded_each: u64, policy_each: u64) -> ReplayedBlock {
        ReplayedBlock {
            completions,
            recorded_exit_ns: completions * recorded_each,
            policy_exit_ns: completions * policy_each,
        }
    }

    /// A plain mean over the blocks would be 45,500, more than all exits cost.
    #[test]
    fn each_completion_counts_the_same_and_no_saving_exceeds_what_all_exits_cost() {
        let blocks = [
            block(99, 2_000, 1_000),
            block(1, 100_000, 10_000),
            block(0, 0, 0),
        ];
        let saving = ReplayedSaving::from_blocks(&blocks).unwrap();
        assert!((saving.saved_ns - 1_890.0).abs() < 1e-6, "{saving:?}");
        let exits: u64 = blocks.iter().map(|block| block.recorded_exit_ns).sum();
        assert!(saving.saved_ns <= exits as f64 / 100.0, "{saving:?}");
        assert_eq!(saving.saved_interval_ns, None);
        assert_eq!(ReplayedSaving::from_blocks(&[block(0, 0, 0)]), None);
    }

    #[test]
    fn an_interval_is_as_wide_as_blocks_differ() {
        let alike = ReplayedSaving::from_blocks(&[block(10, 50_000, 10_000); 20]).unwrap();
        assert_eq!(alike.saved_interval_ns, Some([40_000.0; 2]));
        let differing: Vec<ReplayedBlock> = (0..40)
            .map(|place| block(10, 30_000 + 40_000 * (place % 2), 10_000))
            .collect();
        let saving = ReplayedSaving::from_blocks(&differing).unwrap();
        let [low, high] = saving.saved_interval_ns.unwrap();
        // Blocks of 20,000 and 60,000: a standard error of 20,000 / sqrt(40).
        let half = 1.96 * 20_000.0 / f64::sqrt(40.0);
        for (end, expected) in [(low, 40_000.0 - half), (high, 40_000.0 + half)] {
            assert!((end - expected).abs() < 0.2 * half, "{saving:?}");
        }
    }
}
