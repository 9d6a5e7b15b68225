//! How late timers are that end idle periods: a second look at exits.
//!
//! Deadlines are those that the kernel programs and tells its governors: a timer's hard expiry (`hrtimer_get_expires`), the
//! latest time that its slack allows. So slack lies before the deadline, and is no part of the lateness.

use std::collections::BTreeMap;

use serde::Serialize;

/// Fewest timers for an interval.
const FEWEST: u64 = 8;
/// Latenesses are kept in steps of this many ns, so that a recording of any length needs bounded memory.
const STEP_NS: u64 = 10;

/// Lateness of the timers that ended idle periods of a state: a lower bound of its exit, because hardware may wake before
/// the deadline. Some timers are late for other reasons, so that the median tells more than the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimerLateness {
    /// Index of the idle state that the timers ended.
    pub state: u8,
    /// Number of timers that ended an idle period of this state.
    pub timers: u64,
    /// Median lateness: from a timer's deadline to the end of the idle period, in ns.
    pub median_ns: f64,
    /// The median's 95 % interval by ranks, in ns; `None` with fewer than 8 timers.
    pub interval_ns: Option<[f64; 2]>,
}

/// Latenesses of timers, by idle state.
#[derive(Default)]
pub(crate) struct LatenessTotals {
    /// Number of timers by state and by lateness in steps.
    states: BTreeMap<u8, BTreeMap<u64, u64>>,
}

impl LatenessTotals {
    pub(crate) fn add_timer(&mut self, state: u8, lateness: u64) {
        let counts = self.states.entry(state).or_default();
        *counts.entry(lateness / STEP_NS).or_default() += 1;
    }

    pub(crate) fn median_by_state(&self) -> Vec<TimerLateness> {
        let states = self.states.iter().map(|(state, counts)| {
            let timers: u64 = counts.values().sum();
            let half = timers as f64 / 2.0;
            // Ranks of a median are binomial.
            let spread = 0.98 * (timers as f64).sqrt();
            let at = |rank: f64| lateness_at_rank(counts, rank.max(0.0) as u64);
            TimerLateness {
                state: *state,
                timers,
                median_ns: at(half),
                interval_ns: (timers >= FEWEST).then(|| [at(half - spread), at(half + spread)]),
            }
        });
        states.collect()
    }
}

/// Lateness of a rank, counted from 0, in ns; of a rank beyond the last, the longest.
fn lateness_at_rank(counts: &BTreeMap<u64, u64>, rank: u64) -> f64 {
    let mut below = 0;
    let reached = counts.iter().find(|(_, count)| {
        below += **count;
        below > rank
    });
    let steps = reached.or(counts.last_key_value()).map(|(steps, _)| *steps);
    (steps.unwrap_or(0) * STEP_NS) as f64
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "latenesses are whole numbers of steps")]
mod tests {
    use super::*;

    #[test]
    fn a_few_timers_that_were_late_for_another_reason_do_not_move_the_median() {
        let mut totals = LatenessTotals::default();
        for number in 0..100 {
            let other = if number % 10 == 0 { 1_800_000 } else { 0 };
            totals.add_timer(3, 100_000 + 100 * number + other);
        }
        totals.add_timer(1, 4_005);
        let [one, many] = totals.median_by_state()[..] else {
            panic!("two states");
        };
        assert_eq!(
            (one.timers, one.median_ns, one.interval_ns),
            (1, 4_000.0, None)
        );
        // Ninety are spread over 10 us, so that the median stands 5 of these 100 ranks higher than without the others.
        assert_eq!(many.median_ns, 105_600.0);
        let Some([low, high]) = many.interval_ns else {
            panic!("an interval");
        };
        assert!((104_000.0..105_000.0).contains(&low), "{many:?}");
        assert!((106_000.0..107_000.0).contains(&high), "{many:?}");
    }
}
