//! States that become deeper by themselves in long pauses: a virtual machine's host sleeps on, or the hardware promotes.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::bands::WakeSample;
use super::tally::FEWEST_COUNTED;
use crate::summary::{Estimate, LatencySummary};

/// Pauses that are tried first as the moment of the change.
const CANDIDATES: usize = 40;

/// How a state's exit grows in long pauses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeeperSleep {
    /// Pause from which on wake-ups take longer.
    pub after: Nanoseconds,
    /// Longest pause of the short ones: the change is between this and `after`.
    pub not_after: Nanoseconds,
    /// Exit latency after shorter pauses.
    pub exit_before: Estimate,
    /// Exit latency after longer pauses.
    pub exit: Estimate,
}

impl DeeperSleep {
    /// The pause as an estimate, in ns.
    pub(super) fn after_estimate(&self) -> Estimate {
        let [shorter, longer] = [self.not_after, self.after].map(|pause| pause.0 as f64);
        Estimate {
            ns: longer,
            low: shorter.min(longer),
            high: longer,
        }
    }
}

/// Finds the pause at which wake-ups from a state become slower in one step, and the exits on both sides: medians less those
/// of the reference state after equal pauses. `None`: they do not, by more than their intervals, a least
/// share of the shorter exit, and a least time in ns.
pub(super) fn find_deeper_sleep(
    own: &[WakeSample],
    reference: &[WakeSample],
    (least_share, least_ns): (f64, f64),
) -> Option<DeeperSleep> {
    let mut sorted = own.to_vec();
    sorted.sort_by_key(|sample| sample.gap);
    let fewest = FEWEST_COUNTED as usize;
    let last = sorted.len().checked_sub(fewest)?;
    let step = (sorted.len() / CANDIDATES).max(1);
    let near = find_best_split(&sorted, (fewest..=last).step_by(step))?;
    let around = near.saturating_sub(step).max(fewest)..=(near + step).min(last);
    let best = find_best_split(&sorted, around)?;
    let (after, not_after) = (sorted[best].gap, sorted[best - 1].gap);
    let [before, exit] = [true, false].map(|is_short| {
        let side = |samples: &[WakeSample]| {
            let side = samples
                .iter()
                .filter(|sample| (sample.gap < after) == is_short);
            let latencies: Vec<u64> = side.map(|sample| sample.latency_ns).collect();
            LatencySummary::new(&latencies).filter(|summary| summary.n >= FEWEST_COUNTED)
        };
        let (own, awake) = side(&sorted).zip(side(reference))?;
        Some(own.median.minus(awake.median))
    });
    let (exit_before, exit) = before.zip(exit)?;
    let growth = exit.minus(exit_before);
    let grows = growth.ns > (exit_before.ns * least_share).max(least_ns);
    (grows && growth.low > 0.0).then_some(DeeperSleep {
        after,
        not_after,
        exit_before,
        exit,
    })
}

/// The position among these at which latencies on both sides are nearest to their medians. Equal pauses are not parted.
fn find_best_split(sorted: &[WakeSample], positions: impl Iterator<Item = usize>) -> Option<usize> {
    positions
        .filter(|at| sorted[at - 1].gap < sorted[*at].gap)
        .min_by_key(|at| {
            let (shorter, longer) = sorted.split_at(*at);
            distance_to_medians(shorter) + distance_to_medians(longer)
        })
}

/// Sum of the distances of latencies from their median, in ns.
fn distance_to_medians(samples: &[WakeSample]) -> u64 {
    let mut latencies: Vec<u64> = samples.iter().map(|sample| sample.latency_ns).collect();
    latencies.sort_unstable();
    let median = latencies[latencies.len() / 2];
    latencies.iter().map(|ns| ns.abs_diff(median)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST_GROWTH: (f64, f64) = (0.3, 2_000.0);

    fn samples(latency: impl Fn(u64) -> u64) -> Vec<WakeSample> {
        // Not in the order of pauses.
        let pauses = (0..200_u64).map(|index| 30_000 + (index * 37 % 200) * 20_000);
        pauses
            .map(|gap| WakeSample {
                gap: Nanoseconds(gap),
                latency_ns: latency(gap) + gap / 20_000 % 7 * 30,
            })
            .collect()
    }

    #[test]
    fn a_step_is_found_with_the_exits_on_both_sides() {
        let awake = samples(|gap| 2_000 + gap / 1_000);
        let own = samples(|gap| {
            let exit = if gap < 1_500_000 { 8_000 } else { 50_000 };
            2_000 + gap / 1_000 + exit
        });
        let found = find_deeper_sleep(&own, &awake, LEAST_GROWTH).unwrap();
        assert!(
            found.not_after < Nanoseconds(1_500_000) && found.after >= Nanoseconds(1_500_000),
            "{found:?}"
        );
        assert!((found.exit_before.ns - 8_000.0).abs() < 200.0, "{found:?}");
        assert!((found.exit.ns - 50_000.0).abs() < 200.0, "{found:?}");
    }

    #[test]
    fn what_grows_awake_as_well_is_no_sleep() {
        let growing = samples(|gap| 5_000 + gap / 100);
        let behind = samples(|gap| 13_000 + gap / 100);
        assert_eq!(find_deeper_sleep(&behind, &growing, LEAST_GROWTH), None);
        let constant = samples(|_| 5_000);
        assert_eq!(find_deeper_sleep(&constant, &constant, LEAST_GROWTH), None);
        assert_eq!(
            find_deeper_sleep(&constant[..30], &constant, LEAST_GROWTH),
            None
        );
        assert_eq!(find_deeper_sleep(&[], &[], LEAST_GROWTH), None);
    }
}
