//! What teo expected from an idle period, and what the outcome says.

use crate::idle::interface::IdleOutcome;
use crate::idle::table::{StateSet, StateTable};

/// The idle period that has just been decided on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expectation {
    /// Time to the next timer, as far as the governor looked: [`i64::MAX`] if it did not.
    pub(super) sleep_length: i64,
    /// Bin of the expected time.
    pub(super) bin: usize,
    /// The CPU's clock at the decision.
    pub(super) clock: u64,
}

impl Expectation {
    /// Expects a timer after `sleep_length`.
    #[inline]
    pub(super) fn new(table: &StateTable, sleep_length: i64, clock: u64) -> Self {
        Self {
            sleep_length,
            bin: bin(table, sleep_length),
            clock,
        }
    }

    /// Expects no timer.
    #[inline]
    pub(super) fn endless(table: &StateTable, clock: u64) -> Self {
        Self {
            sleep_length: i64::MAX,
            bin: table.deepest_index(),
            clock,
        }
    }

    /// How long the CPU is taken to have slept; [`u64::MAX`] if at least until the timer. Then the wake-up was due to
    /// the timer, or to a tick or a polling limit that only cut the sleep short.
    #[inline]
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "a branch on these would be mispredicted"
    )]
    pub(super) fn measured(
        self,
        table: &StateTable,
        tick: i64,
        entered: usize,
        outcome: &IdleOutcome,
    ) -> u64 {
        let elapsed = outcome.clock.wrapping_sub(self.clock) as i64;
        let until_timer = (outcome.poll_limit_hit & table.polls(entered))
            | (outcome.got_tick & (self.sleep_length > tick))
            | (elapsed >= self.sleep_length);
        // An exit takes perhaps half of its worst case on average.
        let exit_latency = table.exit_latency(entered) as u64;
        let slept = if outcome.residency >= exit_latency {
            outcome.residency - exit_latency / 2
        } else {
            outcome.residency / 2
        };
        if until_timer { u64::MAX } else { slept }
    }

    /// The bin of a measured idle duration, at most the expected bin.
    #[inline]
    pub(super) fn measured_bin(self, table: &StateTable, measured: u64) -> usize {
        let measured = measured.min(i64::MAX as u64) as i64;
        bin(table, measured.min(self.sleep_length))
    }
}

/// The bin of an idle duration: the deepest state that pays off, enabled or not; else the first bin.
#[inline]
pub(super) fn bin(table: &StateTable, duration: i64) -> usize {
    table.paying_off_within(duration).deepest().unwrap_or(0)
}

/// The state to take instead of `candidate` when most wake-ups come early.
///
/// `majority` is the deepest state that would have suited more than half of the early wake-ups.
/// `deep_enough` tells whether a state may be used at all, which matters once the tick is stopped.
/// The answer is `majority` if it may be used, otherwise the shallowest usable state between it and
/// the candidate, otherwise the candidate itself.
#[inline]
pub(super) fn early_wakeup_state(
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
