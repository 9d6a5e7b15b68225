//! What the teo governor expected from an idle period, and what the outcome says.

use crate::idle::interface::IdleOutcome;
use crate::idle::table::{StateSet, StateTable};

/// What teo expects of the idle period that it has just decided on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expectation {
    /// Time to the next timer in ns, as far as teo looked: [`i64::MAX`] if it did not.
    pub(super) sleep_length: i64,
    /// Bin of the time to the next timer.
    pub(super) bin: usize,
    /// The CPU's clock at the decision.
    pub(super) clock: u64,
}

impl Expectation {
    /// Expects a timer after `sleep_length` ns.
    #[inline]
    pub(super) fn for_timer(table: &StateTable, sleep_length: i64, clock: u64) -> Self {
        Self {
            sleep_length,
            bin: bin_of_duration(table, sleep_length),
            clock,
        }
    }

    /// Expects no timer.
    #[inline]
    pub(super) fn without_timer(table: &StateTable, clock: u64) -> Self {
        Self {
            sleep_length: i64::MAX,
            bin: table.deepest_index(),
            clock,
        }
    }

    /// Time in ns for which the CPU is taken to have slept; [`u64::MAX`] if at least until the
    /// timer. Then the wake-up was due to the timer, or to a tick or a polling limit that only cut
    /// the sleep short.
    #[inline]
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "a branch on these would be mispredicted"
    )]
    pub(super) fn measured_sleep(
        self,
        table: &StateTable,
        tick: i64,
        entered: usize,
        outcome: &IdleOutcome,
    ) -> u64 {
        let elapsed = outcome.clock.wrapping_sub(self.clock) as i64;
        let until_timer = (outcome.poll_limit_hit & table.is_polling(entered))
            | (outcome.got_tick & (self.sleep_length > tick))
            | (elapsed >= self.sleep_length);
        // On average, leaving a state takes perhaps half of its declared exit latency.
        let exit_latency = table.exit_latency(entered) as u64;
        let slept = if outcome.residency >= exit_latency {
            outcome.residency - exit_latency / 2
        } else {
            outcome.residency / 2
        };
        if until_timer { u64::MAX } else { slept }
    }

    /// Bin of a measured idle duration in ns, at most the expected bin.
    #[inline]
    pub(super) fn bin_of_measured_sleep(self, table: &StateTable, measured: u64) -> usize {
        let measured = measured.min(i64::MAX as u64) as i64;
        bin_of_duration(table, measured.min(self.sleep_length))
    }
}

/// Bin of an idle duration in ns: the deepest state that pays off, enabled or not; else the first
/// bin.
#[inline]
pub(super) fn bin_of_duration(table: &StateTable, duration: i64) -> usize {
    table
        .states_paying_off_within(duration)
        .deepest()
        .unwrap_or(0)
}

/// State to take instead of `candidate` when most wake-ups come early.
///
/// `majority` is the deepest state that would have suited more than half of the early wake-ups.
/// `deep_enough` tells whether a state may be used at all, which matters once the tick is stopped.
/// The answer is `majority` if it may be used, otherwise the shallowest usable state between it and
/// the candidate, otherwise the candidate itself.
#[inline]
pub(super) fn state_for_early_wakeups(
    enabled: StateSet,
    candidate: usize,
    majority: usize,
    deep_enough: impl Fn(usize) -> bool,
) -> usize {
    let mut between = enabled.shallower_than(candidate).deeper_than(majority);
    // If not even the next shallower state is deep enough, the candidate stays.
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
