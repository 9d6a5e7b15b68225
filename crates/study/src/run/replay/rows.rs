//! Making result rows from a block of a replayed recording.

use wakepath_replay::{StateReport, TimeBlockPolicy, TimeBlockReport};
use wakepath_results::{Idle, RunRecord};

use super::recording::Replayed;

/// Name of the package as a CPU kind, and of its sleep as an idle state.
const PACKAGE: &str = "package";
const ASLEEP: &str = "asleep";

/// Fills a record with the results of a policy in a time block.
pub(super) fn fill_replayed_run(
    run: &mut RunRecord,
    replayed: &Replayed,
    policy: usize,
    block: usize,
) {
    let Some((place, _)) = replayed.policies.get(policy) else {
        return;
    };
    let Some(block) = replayed.report.blocks.get(block) else {
        return;
    };
    let Some(of_policy) = block.policies.get(*place) else {
        return;
    };
    run.duration_ns = block.duration_ns;
    let whole = MeanBlock::from_blocks(&replayed.report.blocks);
    run.metrics = list_replay_metrics(block, whole, of_policy, *place == 0)
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    for (kind, states) in replayed.kinds.iter().zip(&of_policy.groups) {
        if states.is_empty() {
            continue;
        }
        run.idle
            .extend(states.iter().map(|s| make_idle_row(&kind.name, s)));
        let asleep: u64 = states.iter().map(|s| s.time_ns).sum();
        let whole = block.duration_ns.saturating_mul(u64::from(kind.cpus));
        let power = states.iter().any(|s| s.energy_j.is_some());
        run.idle.push(Idle::for_busy_time(
            &kind.name,
            whole.saturating_sub(asleep),
            power,
        ));
    }
    if let Some(package) = of_policy.package {
        run.idle.push(Idle {
            cpu_kind: PACKAGE.to_owned(),
            state: ASLEEP.to_owned(),
            time_ns: package.asleep_ns,
            entries: package.count,
            too_deep: 0,
            too_shallow: 0,
            above: None,
            below: None,
            added_latency_ns: Some(package.added_latency_ns),
            wasted_energy_uj: Some(package.wasted_j * 1e6),
        });
        let awake = block.duration_ns.saturating_sub(package.asleep_ns);
        run.idle.push(Idle::for_busy_time(PACKAGE, awake, true));
    }
}

fn make_idle_row(kind: &str, state: &StateReport) -> Idle {
    Idle {
        cpu_kind: kind.to_owned(),
        state: state.state.clone(),
        time_ns: state.time_ns,
        entries: state.count,
        too_deep: state.too_deep,
        too_shallow: state.too_shallow,
        above: Some(state.too_deep),
        below: Some(state.too_shallow),
        added_latency_ns: Some(state.added_latency_ns),
        wasted_energy_uj: state.wasted_j.map(|joules| joules * 1e6),
    }
}

/// What a block of a recording has in the mean.
///
/// Times per I/O and per wake-up are a block's sum over these numbers. Their mean over all blocks is then that of all I/Os: a block
/// with few of them weighs as little as it should.
#[derive(Clone, Copy)]
struct MeanBlock {
    ios: f64,
    spans: f64,
}

impl MeanBlock {
    fn from_blocks(blocks: &[TimeBlockReport]) -> Self {
        // I/O without any idle CPU tells nothing about idle states.
        let with_idle_cpus = blocks.iter().filter(|block| block.spans > 0);
        let (ios, spans) = with_idle_cpus.fold((0, 0), |(ios, spans), block| {
            (ios + block.io_completions, spans + block.spans)
        });
        let count = blocks.len().max(1) as f64;
        Self {
            ios: ios as f64 / count,
            spans: spans as f64 / count,
        }
    }
}

/// A block's metrics.
fn list_replay_metrics(
    block: &TimeBlockReport,
    mean: MeanBlock,
    policy: &TimeBlockPolicy,
    recorded: bool,
) -> impl Iterator<Item = (&'static str, f64)> {
    let sums = policy.total_sums();
    let seconds = block.duration_ns as f64 / 1e9;
    let agreement = &block.agreement;
    let as_recorded = agreement.same_state_share().filter(|_| recorded);
    let leased = policy
        .leased_spans
        .and_then(|count| share_of_time(count as f64, block.spans as f64));
    let all = [
        (
            "mean_mw",
            sums.energy_j
                .and_then(|joules| share_of_time(joules * 1e3, seconds)),
        ),
        (
            "added_us_per_io",
            share_of_time(sums.added_io_latency_ns as f64 / 1e3, mean.ios),
        ),
        (
            "exit_us_per_io",
            share_of_time(sums.io_exit_ns as f64 / 1e3, mean.ios),
        ),
        (
            "added_us_per_wake",
            share_of_time(sums.added_latency_ns as f64 / 1e3, mean.spans),
        ),
        (
            "too_deep_per_s",
            share_of_time(sums.too_deep as f64, seconds),
        ),
        (
            "too_shallow_per_s",
            share_of_time(sums.too_shallow as f64, seconds),
        ),
        // A replay counts the same idle periods as too deep and too shallow as the kernel would.
        ("above_per_s", share_of_time(sums.too_deep as f64, seconds)),
        (
            "below_per_s",
            share_of_time(sums.too_shallow as f64, seconds),
        ),
        ("as_recorded", as_recorded.map(|share| share * 100.0)),
        ("leased", leased.map(|share| share * 100.0)),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
}

fn share_of_time(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
