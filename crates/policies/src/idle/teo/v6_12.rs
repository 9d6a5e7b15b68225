//! teo as in Linux 6.12, which looks at the timers only where they matter.

use wakepath_hardware::IdleStates;
use wakepath_units::TickRate;

use super::bins::{Bins, Event, PULSE};
use super::{Expectation, early_wakeup_state};
use crate::idle::table::StateTable;
use crate::idle::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, RESIDENCY_THRESHOLD_NS};

/// The teo governor of Linux 6.12 (`drivers/cpuidle/governors/teo.c`).
#[derive(Clone, Debug)]
pub struct Teo612 {
    pub(in crate::idle) table: StateTable,
    tick: i64,
    expected: Expectation,
    bins: Bins,
    /// There is one more bin, behind that of the deepest state, because that state pays off within
    /// a tick. It tells whether stopping the tick pays.
    tick_bin: bool,
    /// The hits in that bin.
    tick_hits: u32,
    /// All hits and intercepts.
    total: u32,
}

impl Teo612 {
    /// A CPU that has never been idle.
    pub fn new(states: &IdleStates, tick: TickRate) -> Self {
        let table = StateTable::new(states);
        let tick = tick.period().0 as i64;
        let mut teo = Self {
            tick,
            // A zeroed device looks as if it had just left state 0 after no time, when a timer was
            // due.
            expected: Expectation::new(&table, 0, 0),
            bins: Bins::new(states.len()),
            tick_hits: 0,
            tick_bin: table.target_residency(table.deepest_index()) < tick,
            table,
            total: 0,
        };
        teo.count(u64::MAX);
        teo
    }

    /// Counts a wake-up after the idle time `measured`.
    #[inline]
    fn count(&mut self, measured: u64) {
        self.bins.decay();
        self.tick_hits -= self.tick_hits >> 3;
        let past_the_tick = self.tick_bin && self.expected.sleep_length >= self.tick;
        if past_the_tick && measured >= self.tick as u64 {
            self.tick_hits += PULSE;
        } else {
            let bin = self.expected.measured_bin(&self.table, measured);
            let hit = bin == self.expected.bin && !past_the_tick;
            self.bins
                .add(bin, if hit { Event::HIT } else { Event::INTERCEPT });
        }
        self.bins.add_up();
        self.total = self.bins.total() + self.tick_hits;
    }

    /// Looks for a shallower state than `candidate` if most wake-ups come before its target
    /// residency.
    #[inline]
    fn heed_early_wakeups(&self, candidate: usize, tick_stopped: bool) -> usize {
        let early = self.bins.below(candidate);
        if 2 * early.intercepts <= self.total - early.hits {
            return candidate;
        }
        // The deepest state with most of the early wake-ups in its own or a deeper bin.
        let mut majority = candidate;
        while majority > 0 {
            majority -= 1;
            if 2 * self.bins.below(majority).intercepts < early.intercepts {
                break;
            }
        }
        early_wakeup_state(self.table.enabled(), candidate, majority, |state| {
            !tick_stopped || self.table.target_residency(state) >= self.tick
        })
    }
}

/// A decision that leaves the tick alone.
#[inline]
fn keeping_tick(state: usize) -> IdleDecision {
    IdleDecision {
        state,
        stop_tick: false,
    }
}

impl IdleGovernor for Teo612 {
    #[inline(always)]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let table = &self.table;
        // Nothing is expected wherever the timers are not looked at.
        self.expected = Expectation::endless(table, query.clock);
        let enabled = table.enabled();
        let (Some(first), Some(deepest)) = (enabled.shallowest(), enabled.deepest()) else {
            return keeping_tick(0);
        };
        if table.count() < 2 {
            return keeping_tick(0);
        }

        let mut state = deepest;
        let mut duration;
        let mut delta_tick = self.tick / 2;
        if deepest == first {
            // No choice; only whether the tick may stop is open.
            duration = table.target_residency(state);
        } else {
            state = self.heed_early_wakeups(deepest, query.tick_stopped);
            if state == 0 {
                // Looked at only to learn afterwards whether the guess was right.
                self.expected = Expectation::new(table, query.sleep_length, query.clock);
                return keeping_tick(0);
            }
            let deepest_allowed = enabled
                .deeper_than(0)
                .without(table.slower_than(query.latency_request))
                .deepest()
                .unwrap_or(0);
            state = state.min(deepest_allowed);
            // The timers do not matter to a wake-up that is expected at once.
            if state == 0
                || table.polls(0) && table.target_residency(state) < RESIDENCY_THRESHOLD_NS
            {
                return keeping_tick(state);
            }

            duration = query.sleep_length;
            delta_tick = query.delta_tick;
            self.expected = Expectation::new(table, duration, query.clock);
            if table.target_residency(state) > duration {
                state = table.shallower_for(state, duration);
            }
            // Most wake-ups come before a tick would, so the tick does no harm.
            let intercepts = self.bins.all_intercepts();
            if table.target_residency(state) < self.tick
                && intercepts > self.total / 2 + self.total / 8
            {
                duration = self.tick / 2;
            }
        }

        let stop = !table.polls(state) && duration >= self.tick;
        if stop || query.tick_stopped {
            return IdleDecision {
                state,
                stop_tick: true,
            };
        }
        if state > first && table.target_residency(state) > delta_tick {
            state = table.shallower_for(state, delta_tick);
        }
        keeping_tick(state)
    }

    #[inline(always)]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        if outcome.residency == 0 {
            return;
        }
        let measured = self
            .expected
            .measured(&self.table, self.tick, entered, outcome);
        self.count(measured);
    }
}
