//! menu as in Linux 6.1, with the heuristics for tasks that wait for I/O.

use wakepath_hardware::IdleStates;
use wakepath_units::TickRate;

use super::{AllZero, Candidate, Memory, magnitude, only_state_0_will_do, settle, walk};
use crate::idle::table::StateTable;
use crate::idle::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};

/// The menu governor of Linux 6.1 (`drivers/cpuidle/governors/menu.c`).
///
/// Tasks that wait for I/O count twice here: they switch to correction factors of their own, and
/// each divides the exit latency that is tolerated for a given prediction, by 1 + 10 x their number.
#[derive(Clone, Debug)]
pub struct Menu61 {
    pub(in crate::idle) table: StateTable,
    tick: u64,
    /// Six factors without and six with tasks waiting for I/O.
    memory: Memory<12>,
}

impl Menu61 {
    /// A CPU that has never been idle.
    pub fn new(states: &IdleStates, tick: TickRate) -> Self {
        Self {
            table: StateTable::new(states),
            tick: tick.period().0,
            memory: Memory::new(),
        }
    }
}

/// The divisor of the tolerated latency. The kernel computes it in 32 bits and then extends it as a
/// signed number; it is odd, hence never zero.
#[inline]
fn io_wait_divisor(waiting: u32) -> u64 {
    i64::from(waiting.wrapping_mul(10).wrapping_add(1) as i32) as u64
}

impl IdleGovernor for Menu61 {
    #[inline]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let table = &self.table;
        let overdue = query.sleep_length < 0;
        let next_timer = query.sleep_length.max(0) as u64;
        let delta_tick = if overdue { 0 } else { query.delta_tick };
        self.memory.next_timer = next_timer;
        self.memory.bucket = magnitude(next_timer) + if query.nr_iowait > 0 { 6 } else { 0 };

        if only_state_0_will_do(table, next_timer, query.latency_request) {
            return IdleDecision {
                state: 0,
                stop_tick: !table.polls(0),
            };
        }

        let corrected = self.memory.corrected_timer_us();
        let typical = self.memory.intervals.typical(AllZero::IsAPattern);
        let mut predicted = u64::from(typical.map_or(corrected, |us| us.min(corrected))) * 1_000;
        let mut latency = query.latency_request;
        if query.tick_stopped {
            // With no tick to correct a wrong guess, rely on the timer rather than on experience.
            if predicted < self.tick {
                predicted = next_timer;
            }
        } else {
            let tolerated = if query.nr_iowait == 0 {
                predicted
            } else {
                predicted / io_wait_divisor(query.nr_iowait)
            };
            latency = (latency as u64).min(tolerated) as i64;
        }

        let walked = walk(table, latency, predicted);
        let candidate = Candidate {
            chosen: walked.chosen,
            next: walked
                .stopped_by
                .filter(|stop| stop.too_long)
                .map(|stop| stop.state),
            predicted,
            delta_tick,
        };
        settle(table, self.tick, query.tick_stopped, candidate, |next| {
            // Sleeping beats polling unless a timer is about to fire.
            table.exit_latency(next) <= latency && table.target_residency(next) as u64 <= next_timer
        })
    }

    #[inline]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        self.memory.learn(&self.table, self.tick, entered, outcome);
    }
}
