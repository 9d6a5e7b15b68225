//! What entering an idle state costs, from wake-ups that come while a CPU is still on its way into the state.
//!
//! A wake-up within the entry waits until the state is reached. Either the CPU then leaves it, which takes the exit latency
//! more, or it turns back at once. In both cases the pause before such a wake-up and its latency add up to the same moment,
//! the end of the entry, whatever the pause. The entry begins with the shortest pause after which the kernel counts the
//! state.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::bands::WakeSample;
use crate::summary::{Estimate, LatencySummary};

/// Fewest wake-ups within an entry for a figure, and fewest beyond it.
const FEWEST: usize = 8;
/// A latency that differs from that of later wake-ups by less than this, in ns, does not differ.
const LEAST_DIFFERENCE: f64 = 1_000.0;

/// Share of the longest pause within an entry by which the end of the entry may be off.
const MOST_MISS: f64 = 0.2;

/// What a CPU does if it is woken within its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WokenWithinEntry {
    /// Completes the entry, then leaves the state.
    CompletesAndLeaves,
    /// Completes the entry, and turns back without the exit latency.
    CompletesAndTurnsBack,
    /// Turns back at once, so that the entry costs nothing.
    TurnsBackAtOnce,
}

impl WokenWithinEntry {
    /// What the CPU does, for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::CompletesAndLeaves => "completes the entry and then leaves the state",
            Self::CompletesAndTurnsBack => "completes the entry and turns back without the exit",
            Self::TurnsBackAtOnce => "turns back at once",
        }
    }
}

/// The cost of entering a state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EntryTime {
    /// Longest time that a wake-up waits for the end of the entry; 0 where the CPU turns back at once.
    pub cost: Estimate,
    /// What a wake-up within the entry meets.
    pub woken_within: WokenWithinEntry,
    /// Wake-ups within the entry.
    pub n: u64,
}

/// Wake-ups soon after a CPU had nothing to do.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyWakes {
    /// Wake-ups from the state.
    pub(super) counted: Vec<WakeSample>,
    /// Pauses too short for the CPU to begin with the state.
    pub(super) too_short: Vec<Nanoseconds>,
}

impl EarlyWakes {
    /// The cost of the entry. `settled`: wake-ups from the same state after long pauses; `awake`: from the polling state.
    ///
    /// # Errors
    /// Why there is no figure.
    pub(super) fn estimate(
        &self,
        settled: &LatencySummary,
        awake: Option<&LatencySummary>,
    ) -> Result<EntryTime, String> {
        let mut sorted = self.counted.clone();
        sorted.sort_by_key(|sample| sample.gap);
        let Some(first) = sorted.first().filter(|_| sorted.len() >= 2 * FEWEST) else {
            return Err(format!("only {} early wake-ups count", sorted.len()));
        };
        let usual = settled.median.ns;
        let tolerance = LEAST_DIFFERENCE.max(settled.p90.0 as f64 - usual);
        let within = count_within_entry(&sorted, usual, tolerance);
        if within < FEWEST {
            return Err(format!(
                "no cost above {:.1} us: wake-ups after pauses from {:.1} us on take as long as later ones",
                tolerance / 1e3,
                first.gap.0 as f64 / 1e3
            ));
        }
        if sorted.len() - within < FEWEST {
            return Err("the entry is longer than the pauses that were tried".to_owned());
        }
        let (early, boundary) = (&sorted[..within], sorted[within].gap.0 as f64);
        let n = within as u64;
        let at_once = awake.map_or(0, |awake| count_like(early, awake, tolerance));
        if at_once * 2 > within {
            return Ok(EntryTime {
                cost: Estimate::ZERO,
                woken_within: WokenWithinEntry::TurnsBackAtOnce,
                n,
            });
        }
        let each = early
            .iter()
            .map(|sample| sample.gap.0.saturating_add(sample.latency_ns));
        let sums: Vec<u64> = each.collect();
        let sum = LatencySummary::new(&sums)
            .ok_or("no early wake-up counts")?
            .median;
        // What is taken off the sums has to put the end of the entry where wake-ups stop to differ.
        let turned =
            awake.filter(|awake| end_miss(sum, awake, boundary) < end_miss(sum, settled, boundary));
        let reference = turned.unwrap_or(settled);
        if end_miss(sum, reference, boundary) > tolerance.max(MOST_MISS * boundary) {
            return Err(
                "pauses and latencies of early wake-ups do not add up to one end of the entry"
                    .to_owned(),
            );
        }
        let end = sum.minus(reference.median);
        Ok(EntryTime {
            cost: end.minus(self.begin(first.gap)).at_least_zero(),
            woken_within: if turned.is_some() {
                WokenWithinEntry::CompletesAndTurnsBack
            } else {
                WokenWithinEntry::CompletesAndLeaves
            },
            n,
        })
    }

    /// When the entry begins: no later than the shortest pause that counts, and after the longest below it that does not.
    fn begin(&self, shortest: Nanoseconds) -> Estimate {
        let below = self.too_short.iter().filter(|gap| **gap < shortest).max();
        Estimate {
            ns: shortest.0 as f64,
            low: below.map_or(0.0, |gap| gap.0 as f64),
            high: shortest.0 as f64,
        }
    }
}

/// How many wake-ups took about as long as the reference.
fn count_like(wakes: &[WakeSample], reference: &LatencySummary, tolerance: f64) -> usize {
    let differences = wakes
        .iter()
        .map(|wake| (wake.latency_ns as f64 - reference.median.ns).abs());
    differences
        .filter(|difference| *difference <= tolerance)
        .count()
}

/// How far the end of the entry, by sums of pause and latency less a reference, is from the pause at which wake-ups stop to
/// differ; in ns.
fn end_miss(sum: Estimate, reference: &LatencySummary, boundary: f64) -> f64 {
    (sum.ns - reference.median.ns - boundary).abs()
}

/// How many samples, shortest pause first, are within the entry: where most before differ from later wake-ups, and most
/// behind do not.
fn count_within_entry(sorted: &[WakeSample], usual: f64, tolerance: f64) -> usize {
    let (mut best, mut best_at, mut balance) = (0_i64, 0, 0_i64);
    for (index, sample) in sorted.iter().enumerate() {
        let differs = (sample.latency_ns as f64 - usual).abs() > tolerance;
        balance += if differs { 1 } else { -1 };
        if balance > best {
            (best, best_at) = (balance, index + 1);
        }
    }
    best_at
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Wake-ups without an exit, the exit latency, and when an entry begins, in ns.
    const AWAKE: u64 = 3_000;
    const EXIT: u64 = 60_000;
    const BEGIN: u64 = 2_500;

    fn summary(latency: u64) -> LatencySummary {
        let samples: Vec<u64> = (0..100).map(|i| latency + i * 3).collect();
        LatencySummary::new(&samples).unwrap()
    }

    /// Early wake-ups of a CPU whose latency, with `left` ns of its entry to go, is as told.
    fn wakes(entry: u64, latency: impl Fn(u64) -> u64) -> EarlyWakes {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut early = EarlyWakes::default();
        for _ in 0..200 {
            let gap = (1_000.0 * 400.0_f64.powf(random.random::<f64>())) as u64;
            if gap < BEGIN {
                early.too_short.push(Nanoseconds(gap));
                continue;
            }
            let left = (BEGIN + entry).saturating_sub(gap);
            early.counted.push(WakeSample {
                gap: Nanoseconds(gap),
                latency_ns: latency(left) + random.random_range(0..300),
            });
        }
        early
    }

    fn estimate(early: &EarlyWakes) -> Result<EntryTime, String> {
        early.estimate(&summary(AWAKE + EXIT), Some(&summary(AWAKE)))
    }

    #[test]
    fn an_entry_that_is_completed_and_then_left_has_its_length() {
        for entry in [5_000, 40_000, 120_000] {
            let found = estimate(&wakes(entry, |left| AWAKE + left + EXIT)).unwrap();
            assert_eq!(found.woken_within, WokenWithinEntry::CompletesAndLeaves);
            let most = (0.05 * entry as f64).max(1_000.0);
            assert!((found.cost.ns - entry as f64).abs() < most, "{found:?}");
            assert!(found.cost.covers(entry as f64), "{found:?}");
        }
    }

    #[test]
    fn an_entry_that_is_completed_without_an_exit_has_its_length() {
        for entry in [5_000, 40_000, 120_000] {
            let early = wakes(entry, |left| AWAKE + if left > 0 { left } else { EXIT });
            let found = estimate(&early).unwrap();
            assert_eq!(found.woken_within, WokenWithinEntry::CompletesAndTurnsBack);
            let most = (0.05 * entry as f64).max(1_000.0);
            assert!((found.cost.ns - entry as f64).abs() < most, "{found:?}");
        }
    }

    #[test]
    fn an_entry_that_is_broken_off_costs_nothing() {
        let early = wakes(40_000, |left| AWAKE + if left > 0 { 0 } else { EXIT });
        let found = estimate(&early).unwrap();
        assert_eq!(found.woken_within, WokenWithinEntry::TurnsBackAtOnce);
        assert!(found.cost.covers(0.0) && found.cost.high < 1.0);
    }

    #[test]
    fn what_is_not_seen_has_a_reason_and_no_figure() {
        let none = estimate(&wakes(0, |_| AWAKE + EXIT)).unwrap_err();
        assert!(none.starts_with("no cost above 1.0 us"), "{none}");
        let long = estimate(&wakes(900_000, |left| AWAKE + left + EXIT)).unwrap_err();
        assert!(long.contains("longer than the pauses"), "{long}");
        let few = estimate(&EarlyWakes::default()).unwrap_err();
        assert_eq!(few, "only 0 early wake-ups count");
        let turning = wakes(40_000, |left| AWAKE + if left > 0 { left } else { EXIT });
        let unknown = turning.estimate(&summary(AWAKE + EXIT), None).unwrap_err();
        assert!(unknown.contains("do not add up"), "{unknown}");
    }

    #[test]
    fn other_work_at_some_wake_ups_hides_no_entry() {
        let mut early = wakes(40_000, |left| AWAKE + left + EXIT);
        for sample in early.counted.iter_mut().step_by(7) {
            sample.latency_ns += 50_000;
        }
        let found = estimate(&early).unwrap();
        assert!((found.cost.ns - 40_000.0).abs() < 2_000.0, "{found:?}");
    }
}
