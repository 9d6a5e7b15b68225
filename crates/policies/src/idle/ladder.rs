//! The ladder governor: a step deeper after four long idle periods, a step back after one short period.

use wakepath_hardware::IdleStates;
use wakepath_hardware::idle::MAX_STATES;

use super::table::StateTable;
use super::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};

/// Number of consecutive long idle periods before ladder goes a state deeper; a single short period
/// leads a state back.
const PROMOTION_COUNT: u32 = 4;

/// The ladder governor (`drivers/cpuidle/governors/ladder.c`, the same in Linux 6.1 and 6.12).
///
/// It looks only at how long the last idle period was, never at timers, and always lets the tick stop. On a
/// driver whose state 0 polls, its lowest rung is state 1, even if there is no such state.
#[derive(Clone, Debug)]
pub struct Ladder {
    pub(in crate::idle) table: StateTable,
    /// The lowest rung.
    first: usize,
    current: usize,
    last_residency: u64,
    /// Long idle periods in a row so far, by idle state.
    promotion_counts: [u32; MAX_STATES],
}

impl Ladder {
    /// The ladder governor of a CPU that has never been idle.
    pub fn new(states: &IdleStates) -> Self {
        let table = StateTable::new(states);
        let first = usize::from(table.is_polling(0));
        Self {
            table,
            first,
            current: first,
            last_residency: 0,
            promotion_counts: [0; MAX_STATES],
        }
    }

    #[inline]
    fn step_to_state(&mut self, state: usize) {
        self.promotion_counts[self.current] = 0;
        self.current = state;
    }

    /// Next deeper state, if the last idle period completes the required number of long ones;
    /// counts the period.
    #[inline]
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "a branch on these would be mispredicted"
    )]
    fn count_towards_deeper_state(&mut self, length: u64, latency_request: i64) -> Option<usize> {
        let (table, current) = (&self.table, self.current);
        let deeper = current + 1;
        // The polling state, entered because of latency request 0, has no thresholds.
        let (long, needed) = if current >= self.first {
            (table.exit_latency(current) as u64, PROMOTION_COUNT)
        } else {
            (0, 0)
        };
        // A state beyond the deepest is not enabled.
        let earned = table.is_enabled(deeper)
            & (length > long)
            & (table.exit_latency(deeper) <= latency_request);
        if !earned {
            return None;
        }
        self.promotion_counts[current] += 1;
        (self.promotion_counts[current] >= needed).then_some(deeper)
    }

    /// State to step back to, if the current one is disabled, too slow to leave or too deep for the
    /// last idle period.
    #[inline]
    fn state_to_step_back_to(&self, length: u64, latency_request: i64) -> Option<usize> {
        let (table, current) = (&self.table, self.current);
        if current <= self.first {
            return None;
        }
        if !table.is_enabled(current) || table.exit_latency(current) > latency_request {
            // The step back does not skip disabled states.
            let allowed = (self.first + 1..current)
                .rev()
                .find(|&state| table.exit_latency(state) <= latency_request);
            return Some(allowed.unwrap_or(self.first));
        }
        (length < table.exit_latency(current) as u64).then(|| current - 1)
    }
}

impl IdleGovernor for Ladder {
    #[inline]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        if query.latency_request == 0 {
            self.step_to_state(0);
        } else {
            // The kernel compares this difference unsigned: an idle period shorter than the exit latency,
            // or a refused state, looks endless.
            let length = self
                .last_residency
                .wrapping_sub(self.table.exit_latency(self.current) as u64);
            let step = self
                .count_towards_deeper_state(length, query.latency_request)
                .or_else(|| self.state_to_step_back_to(length, query.latency_request));
            if let Some(state) = step {
                self.step_to_state(state);
            }
        }
        IdleDecision {
            state: self.current,
            stop_tick: true,
        }
    }

    #[inline]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        self.last_residency = outcome.residency;
        if outcome.residency != 0 && entered > 0 {
            self.current = entered.min(MAX_STATES - 1);
        }
    }
}
