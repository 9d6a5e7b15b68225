//! The menu governor: expect the CPU to sleep until the next timer, corrected by experience, unless
//! its recent wake-ups show a pattern.
//!
//! Source: `drivers/cpuidle/governors/menu.c`, Linux 6.1 ([`Menu61`]) and Debian's 6.12
//! ([`Menu612`]). Both keep the same memory, which is in this module.

mod pattern;
mod v6_1;
mod v6_12;

pub use v6_1::Menu61;
pub use v6_12::Menu612;

use self::pattern::{AllZero, RecentIntervals};
use super::table::StateTable;
use super::{IdleDecision, IdleOutcome};

/// A correction factor of one: 1024 times the 8 steps over which it is averaged.
const UNITY: u32 = 1024 * 8;
/// Idle times from here on count as perfectly predicted.
const LONG_ENOUGH_NS: u64 = 50_000_000;

/// What menu remembers of a CPU. `BUCKETS` is how many correction factors it keeps apart.
#[derive(Clone, Debug)]
struct Memory<const BUCKETS: usize> {
    /// How much of the time to the next timer the CPU really slept, by order of magnitude of that
    /// time. [`UNITY`] is all of it.
    factors: [u32; BUCKETS],
    intervals: RecentIntervals,
    /// The bucket of the last prediction.
    bucket: usize,
    /// The time to the next timer at the last prediction.
    next_timer: u64,
}

impl<const BUCKETS: usize> Memory<BUCKETS> {
    fn new() -> Self {
        let mut intervals = RecentIntervals::new();
        // Before its first decision a device looks like one whose driver has refused a state.
        intervals.push(u32::MAX);
        Self {
            factors: [UNITY; BUCKETS],
            intervals,
            bucket: 0,
            next_timer: 0,
        }
    }

    /// The time to the next timer, corrected by experience, in microseconds. The kernel's 64-bit
    /// product wraps and its result is cut to 32 bits; a timer far away shows both.
    #[inline]
    fn corrected_timer_us(&self) -> u32 {
        let unit = u64::from(UNITY) * 1_000;
        let scaled = self
            .next_timer
            .wrapping_mul(u64::from(self.factors[self.bucket]));
        (scaled.wrapping_add(unit / 2) / unit) as u32
    }

    /// Learns from how the stay in state `entered` ended.
    ///
    /// The kernel does this at the start of the next decision. Nothing that it uses changes in
    /// between, so it may as well be done here.
    #[inline]
    fn learn(&mut self, table: &StateTable, tick: u64, entered: usize, outcome: &IdleOutcome) {
        if outcome.residency == 0 {
            self.intervals.push(u32::MAX);
            return;
        }
        let slept = if outcome.got_tick && self.next_timer > tick {
            // Kept from sleeping on by a tick that menu itself left running: it might have been
            // a long sleep, though not a perfect one.
            LONG_ENOUGH_NS * 9 / 10
        } else if outcome.poll_limit_hit && table.polls(entered) {
            // Without the limit it would have polled until the timer.
            self.next_timer
        } else {
            let exit_latency = table.exit_latency(entered) as u64;
            if outcome.residency > exit_latency.wrapping_mul(2) {
                outcome.residency.wrapping_sub(exit_latency)
            } else {
                outcome.residency / 2
            }
        };
        let slept = slept.min(self.next_timer);

        let share = if self.next_timer > 0 && slept < LONG_ENOUGH_NS {
            1024 * slept / self.next_timer
        } else {
            1024
        };
        let factor = &mut self.factors[self.bucket];
        *factor = *factor - *factor / 8 + share as u32;

        self.intervals.push((slept / 1_000) as u32);
    }
}

/// The order of magnitude of a duration: below 10 us, 100 us, 1 ms, 10 ms, 100 ms, or longer.
#[inline]
fn magnitude(duration_ns: u64) -> usize {
    [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
        .iter()
        .map(|&limit| usize::from(duration_ns >= limit))
        .sum()
}

/// Where the walk from the shallowest state down ended.
struct Walk {
    /// The deepest enabled state for which nothing spoke against it or any shallower one; the first
    /// enabled one if something spoke against that already.
    chosen: usize,
    /// The enabled state that stopped the walk, and whether it was too slow to leave or too long.
    stopped_by: Option<Stop>,
}

struct Stop {
    state: usize,
    too_slow: bool,
    too_long: bool,
}

/// Walks down the enabled states for as long as they may be left within `latency` and pay off
/// within `predicted`.
#[inline]
fn walk(table: &StateTable, latency: i64, predicted: u64) -> Walk {
    let too_slow = table.slower_than(latency);
    // A prediction beyond the signed range is beyond every target residency.
    let too_long = table.longer_than(i64::try_from(predicted).unwrap_or(i64::MAX));
    match too_slow.or(too_long).shallowest() {
        Some(state) => Walk {
            chosen: table
                .enabled()
                .shallower_than(state)
                .deepest()
                .unwrap_or(state),
            stopped_by: Some(Stop {
                state,
                too_slow: too_slow.contains(state),
                too_long: too_long.contains(state),
            }),
        },
        None => Walk {
            chosen: table.enabled().deepest().unwrap_or(0),
            stopped_by: None,
        },
    }
}

/// Where there is nothing to choose: one state only, no latency allowed, or a timer or latency
/// request too near for state 1 while state 0 is enabled.
#[inline]
fn only_state_0_will_do(table: &StateTable, next_timer: u64, latency_request: i64) -> bool {
    table.count() <= 1
        || latency_request == 0
        || table.is_enabled(0)
            && (next_timer < table.target_residency(1) as u64
                || latency_request < table.exit_latency(1))
}

/// A state chosen by its latency and the predicted idle time, and what else bears on the decision.
#[derive(Clone, Copy)]
struct Candidate {
    chosen: usize,
    /// The next deeper state, if only the prediction speaks against it.
    next: Option<usize>,
    predicted: u64,
    /// Time to the next timer or tick.
    delta_tick: i64,
}

/// Makes up for a prediction that may be wrong, with the tick as the safety net: a candidate that
/// polls gives way to the next state if that `beats_polling`; one that would be left alone for too
/// long keeps the tick or, where that is stopped already, goes deeper.
#[inline]
fn settle(
    table: &StateTable,
    tick: u64,
    tick_stopped: bool,
    candidate: Candidate,
    beats_polling: impl FnOnce(usize) -> bool,
) -> IdleDecision {
    let Candidate {
        chosen: mut state,
        next,
        mut predicted,
        delta_tick,
    } = candidate;
    if let Some(next) = next {
        let next_residency = table.target_residency(next);
        if table.polls(state) && beats_polling(next) {
            predicted = next_residency as u64;
            state = next;
        } else if predicted >= tick {
            if tick_stopped {
                // Nothing would wake the CPU early from a shallow state.
                if table.target_residency(state) < tick as i64 && next_residency <= delta_tick {
                    state = next;
                }
                return IdleDecision {
                    state,
                    stop_tick: true,
                };
            }
            // Keep the tick, and decide again when it fires.
            predicted = table.target_residency(state) as u64;
        }
    }
    let keep_tick = !tick_stopped && (table.polls(state) || predicted < tick);
    if keep_tick && table.target_residency(state) > delta_tick {
        state = table.shallower_for(state, delta_tick);
    }
    IdleDecision {
        state,
        stop_tick: !keep_tick,
    }
}
