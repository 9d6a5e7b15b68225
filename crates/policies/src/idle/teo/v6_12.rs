//! teo as in Linux 6.12, which looks at the timers only where they matter.

use wakepath_hardware::IdleStates;
use wakepath_units::TickRate;

use super::{BINS, Counters, Expectation, PULSE, bins, decay, early_wakeup_state, sum_below};
use crate::idle::table::StateTable;
use crate::idle::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, RESIDENCY_THRESHOLD_NS};

/// The teo governor of Linux 6.12 (`drivers/cpuidle/governors/teo.c`).
#[derive(Clone, Debug)]
pub struct Teo612 {
    pub(in crate::idle) table: StateTable,
    tick: i64,
    expected: Expectation,
    hits: Counters,
    intercepts: Counters,
    /// Hits of a timer at least one tick away, where the deepest state pays off sooner than that.
    tick_hits: u32,
    /// All hits and intercepts.
    total: u32,
}

impl Teo612 {
    /// A CPU that has never been idle.
    pub fn new(states: &IdleStates, tick: TickRate) -> Self {
        let mut teo = Self {
            table: StateTable::new(states),
            tick: tick.period().0 as i64,
            expected: Expectation::default(),
            hits: [0; BINS],
            intercepts: [0; BINS],
            tick_hits: 0,
            total: 0,
        };
        // A zeroed device looks as if it had just left state 0 after no time, when a timer was due.
        teo.count(None);
        teo
    }

    /// Counts a wake-up after the idle time `measured`.
    #[inline]
    fn count(&mut self, measured: Option<u64>) {
        decay(&mut self.hits);
        decay(&mut self.intercepts);
        self.total = sum_below(&self.hits, BINS) + sum_below(&self.intercepts, BINS) + PULSE;

        let sleep_length = self.expected.sleep_length;
        let found = bins(&self.table, sleep_length, measured);
        let mut past_the_tick = false;
        if self.table.target_residency(self.table.deepest_index()) < self.tick {
            // One more bin, behind that of the deepest state, tells whether stopping the tick pays.
            self.tick_hits -= self.tick_hits >> 3;
            self.total += self.tick_hits;
            past_the_tick = sleep_length >= self.tick;
            if past_the_tick && measured.is_none_or(|time| time >= self.tick as u64) {
                self.tick_hits += PULSE;
                return;
            }
        }
        if found.timer == found.measured && !past_the_tick {
            self.hits[found.timer] += PULSE;
        } else {
            self.intercepts[found.measured] += PULSE;
        }
    }

    /// Looks for a shallower state than `candidate` if most wake-ups come before its target
    /// residency.
    #[inline]
    fn heed_early_wakeups(&self, candidate: usize, tick_stopped: bool) -> usize {
        let intercepts = sum_below(&self.intercepts, candidate);
        let hits = sum_below(&self.hits, candidate);
        if 2 * intercepts <= self.total - hits {
            return candidate;
        }
        // The deepest state with most of the early wake-ups in its own or a deeper bin.
        let mut majority = candidate;
        let mut so_far = 0;
        while majority > 0 && 2 * so_far <= intercepts {
            majority -= 1;
            so_far += self.intercepts[majority];
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
    #[inline]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        self.expected = Expectation {
            // Infinite wherever the timers are not looked at.
            sleep_length: i64::MAX,
            clock: query.clock,
        };
        let table = &self.table;
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
                self.expected.sleep_length = query.sleep_length;
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
            self.expected.sleep_length = duration;
            if table.target_residency(state) > duration {
                state = table.shallower_for(state, duration);
            }
            // Most wake-ups come before a tick would, so the tick does no harm.
            let intercepts = sum_below(&self.intercepts, BINS);
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

    #[inline]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        if outcome.residency == 0 {
            return;
        }
        let measured = self
            .expected
            .measured(&self.table, self.tick as u64, entered, outcome);
        self.count(measured);
    }
}
