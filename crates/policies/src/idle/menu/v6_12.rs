//! menu as in Debian's Linux 6.12: no influence of I/O, and no look at the timers where a pattern
//! promises an early wake-up.

use wakepath_hardware::IdleStates;
use wakepath_units::TickRate;

use super::{AllZero, Candidate, Memory, magnitude, only_state_0_will_do, settle, walk};
use crate::idle::table::StateTable;
use crate::idle::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, RESIDENCY_THRESHOLD_NS};

/// The menu governor of Debian's Linux 6.12 (`drivers/cpuidle/governors/menu.c`; the same from the
/// stable release 6.12.44 on).
#[derive(Clone, Debug)]
pub struct Menu612 {
    pub(in crate::idle) table: StateTable,
    tick: u64,
    memory: Memory<6>,
}

impl Menu612 {
    /// A CPU that has never been idle.
    pub fn new(states: &IdleStates, tick: TickRate) -> Self {
        Self {
            table: StateTable::new(states),
            tick: tick.period().0,
            memory: Memory::new(),
        }
    }

    /// Predicts the idle time. Also returns the time to the next timer or tick.
    #[inline]
    fn predict(&mut self, query: &IdleQuery) -> (u64, i64) {
        let memory = &mut self.memory;
        let typical = memory.intervals.typical(AllZero::SaysNothing);
        let typical = u64::from(typical.unwrap_or(u32::MAX)) * 1_000;
        if typical <= RESIDENCY_THRESHOLD_NS as u64 && !query.tick_stopped {
            // Too short for the timers to matter, so they are taken to be far away and the tick
            // to be half a period off.
            memory.next_timer = i64::MAX as u64;
            memory.bucket = magnitude(memory.next_timer);
            return (typical, (self.tick / 2) as i64);
        }
        let overdue = query.sleep_length < 0;
        memory.next_timer = query.sleep_length.max(0) as u64;
        memory.bucket = magnitude(memory.next_timer);
        let mut predicted = typical.min(u64::from(memory.corrected_timer_us()) * 1_000);
        // With no tick to correct a wrong guess, rely on the timer rather than on experience.
        if query.tick_stopped && predicted < self.tick {
            predicted = memory.next_timer;
        }
        (predicted, if overdue { 0 } else { query.delta_tick })
    }
}

impl IdleGovernor for Menu612 {
    #[inline(always)]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let (predicted, delta_tick) = self.predict(query);
        let next_timer = self.memory.next_timer;
        let table = &self.table;

        if only_state_0_will_do(table, next_timer, query.latency_request) {
            return IdleDecision {
                state: 0,
                stop_tick: !table.polls(0),
            };
        }

        let walked = walk(table, query.latency_request, predicted);
        let candidate = Candidate {
            chosen: walked.chosen,
            next: walked
                .stopped_by
                .filter(|stop| !stop.too_slow)
                .map(|stop| stop.state),
            predicted,
            delta_tick,
        };
        settle(table, self.tick, query.tick_stopped, candidate, |next| {
            // A quick sleep beats polling unless a timer is about to fire.
            let residency = table.target_residency(next);
            residency < RESIDENCY_THRESHOLD_NS
                && residency as u64 <= next_timer
                && table.exit_latency(next) as u64 <= predicted
        })
    }

    #[inline(always)]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        self.memory.learn(&self.table, self.tick, entered, outcome);
    }
}
