//! The timer-events-oriented governor: trust the next timer unless most recent wake-ups came before
//! it, and then choose the state that most of those early wake-ups would have suited.
//!
//! Source: `drivers/cpuidle/governors/teo.c`, Linux 6.1 ([`Teo61`]) and 6.12 ([`Teo612`]).
//!
//! Every idle state stands for a bin of idle durations, from its target residency to that of the
//! next state. A wake-up in the bin of the timer that was expected is a *hit* there; one in a
//! shallower bin is an *intercept* in that shallower bin.

mod v6_1;
mod v6_12;

pub use v6_1::Teo61;
pub use v6_12::Teo612;

use super::IdleOutcome;
use super::table::{StateSet, StateTable};

/// What one event adds to a counter.
const PULSE: u32 = 1024;
/// Room for a counter per state, rounded up to whole vector registers. A counter without a state
/// stays 0.
const BINS: usize = 12;

/// Counters of one kind, one per state.
type Counters = [u32; BINS];

/// Takes an eighth off every counter.
#[inline]
fn decay(counters: &mut Counters) {
    for counter in counters {
        *counter -= *counter >> 3;
    }
}

/// The sum of the counters of all states shallower than `state`.
#[inline]
fn sum_below(counters: &Counters, state: usize) -> u32 {
    counters[..state].iter().sum()
}

/// The idle period that has just been decided on.
#[derive(Clone, Copy, Debug, Default)]
struct Expectation {
    /// Time to the next timer, as far as the governor looked: [`i64::MAX`] if it did not.
    sleep_length: i64,
    /// The CPU's clock at the decision.
    clock: u64,
}

impl Expectation {
    /// How long the CPU is taken to have slept. `None` means at least until the timer: the wake-up
    /// was due to the timer, or to a tick or a polling limit that only cut the sleep short.
    #[inline]
    fn measured(
        self,
        table: &StateTable,
        tick: u64,
        entered: usize,
        outcome: &IdleOutcome,
    ) -> Option<u64> {
        let cut_short = outcome.poll_limit_hit && table.polls(entered)
            || outcome.got_tick && self.sleep_length > tick as i64;
        let elapsed = outcome.clock.wrapping_sub(self.clock) as i64;
        if cut_short || elapsed >= self.sleep_length {
            return None;
        }
        // On average the exit takes perhaps half of its worst case.
        let exit_latency = table.exit_latency(entered) as u64;
        Some(if outcome.residency >= exit_latency {
            outcome.residency - exit_latency / 2
        } else {
            outcome.residency / 2
        })
    }
}

/// The bins of the expected and of the measured idle duration.
struct Bins {
    timer: usize,
    measured: usize,
}

#[inline]
fn bins(table: &StateTable, sleep_length: i64, measured: Option<u64>) -> Bins {
    let mut found = Bins {
        timer: 0,
        measured: 0,
    };
    // Residencies are never negative, and no signed time is above the clamped one.
    let measured = i64::try_from(measured.unwrap_or(u64::MAX)).unwrap_or(i64::MAX);
    let both = sleep_length.min(measured);
    for (i, &residency) in table.target_residencies()[..table.count()]
        .iter()
        .enumerate()
    {
        if residency <= sleep_length {
            found.timer = i;
        }
        if residency <= both {
            found.measured = i;
        }
    }
    found
}

/// The state to take instead of `candidate` when most wake-ups come early.
///
/// `majority` is the deepest state that would have suited more than half of the early wake-ups.
/// `deep_enough` tells whether a state may be used at all, which matters once the tick is stopped.
/// The answer is `majority` if it may be used, otherwise the shallowest usable state between it and
/// the candidate, otherwise the candidate itself.
#[inline]
fn early_wakeup_state(
    enabled: StateSet,
    candidate: usize,
    majority: usize,
    deep_enough: impl Fn(usize) -> bool,
) -> usize {
    let mut between = enabled.shallower_than(candidate).deeper_than(majority);
    // If not even the next state is deep enough, the search ends there.
    if between.deepest().is_some_and(|next| !deep_enough(next)) {
        return candidate;
    }
    if enabled.contains(majority) && deep_enough(majority) {
        return majority;
    }
    while let Some(state) = between.shallowest() {
        if deep_enough(state) {
            return state;
        }
        between = between.deeper_than(state);
    }
    candidate
}
