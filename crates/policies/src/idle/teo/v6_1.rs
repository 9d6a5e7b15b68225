//! teo in Linux 6.1, which also tracks the last nine wake-ups.

use wakepath_hardware::IdleStates;
use wakepath_units::TickRate;

use super::bins::{Bins, Event};
use super::expectation::{Expectation, state_for_early_wakeups};
use crate::idle::table::StateTable;
use crate::idle::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};

/// Number of wake-ups that teo of Linux 6.1 counts as recent.
const RECENT: usize = 9;

/// The teo governor in Linux 6.1 (`drivers/cpuidle/governors/teo.c`).
#[derive(Clone, Debug)]
pub struct Teo61 {
    pub(in crate::idle) table: StateTable,
    tick: i64,
    expected: Expectation,
    bins: Bins,
    /// Number of all hits and intercepts.
    total: u32,
    /// The last nine wake-ups with their bins.
    last: [(usize, Event); RECENT],
    oldest: usize,
}

impl Teo61 {
    /// The teo governor of Linux 6.1 for a CPU that was never idle.
    pub fn new(states: &IdleStates, tick: TickRate) -> Self {
        let table = StateTable::new(states);
        let mut teo = Self {
            tick: tick.period().0 as i64,
            // The kernel's zeroed memory looks as if the CPU had just left state 0 after no time,
            // when a timer was due.
            expected: Expectation::for_timer(&table, 0, 0),
            table,
            bins: Bins::new(states.len()),
            total: 0,
            last: [(0, Event::default()); RECENT],
            oldest: 0,
        };
        teo.count_wakeup(u64::MAX);
        teo
    }

    /// Counts a wake-up after a sleep of `measured` ns as a hit or an intercept.
    #[inline]
    fn count_wakeup(&mut self, measured: u64) {
        self.bins.decay_counters();
        let bin = self.expected.bin_of_measured_sleep(&self.table, measured);
        let event = if bin == self.expected.bin {
            Event::HIT
        } else {
            Event::INTERCEPT
        };
        let (forgotten_bin, forgotten) =
            std::mem::replace(&mut self.last[self.oldest], (bin, event));
        self.bins.forget_recent_wakeup(forgotten_bin, forgotten);
        self.bins.count_wakeup(bin, event);
        self.bins.update_sums();
        self.total = self.bins.summed_wakeups();
        self.oldest = if self.oldest + 1 == RECENT {
            0
        } else {
            self.oldest + 1
        };
    }

    /// Idle duration in the middle of a state's bin: half-way to the next state's target residency.
    #[inline]
    fn middle_of_bin(&self, state: usize) -> i64 {
        let next = self.table.target_residency(state + 1);
        self.table.target_residency(state).wrapping_add(next) / 2
    }

    /// State to use instead of `candidate` if most wake-ups come before its target residency, by
    /// the counters or by the recent wake-ups; else `candidate`. Also returns the idle duration to
    /// expect, in ns.
    #[inline]
    fn shallower_state_if_wakeups_are_early(
        &self,
        candidate: usize,
        duration: i64,
        tick_stopped: bool,
    ) -> (usize, i64) {
        let early = self.bins.sums_below(candidate);
        let by_counters = 2 * early.intercepts > self.total - early.hits;
        let by_recent = early.recent > RECENT as u32 / 2;
        if !by_counters && !by_recent {
            return (candidate, duration);
        }

        // The majority is the deepest state with most of the early wake-ups in its own or a deeper
        // bin.
        let mut majority = candidate;
        while majority > 0 {
            majority -= 1;
            let before = self.bins.sums_below(majority);
            if (!by_counters || 2 * before.intercepts < early.intercepts)
                && (!by_recent || 2 * before.recent < early.recent)
            {
                break;
            }
        }

        let long_enough =
            |state| !tick_stopped || self.middle_of_bin(state) as u64 >= self.tick as u64;
        let state = state_for_early_wakeups(
            self.table.enabled_states(),
            candidate,
            majority,
            long_enough,
        );
        if state == candidate {
            (candidate, duration)
        } else {
            (state, self.middle_of_bin(state))
        }
    }

    /// Chooses the state to use; also returns the idle duration in ns that is to be expected if the
    /// tick can be stopped.
    #[inline]
    fn choose_state_and_duration(&self, query: &IdleQuery, first: usize) -> (usize, i64) {
        let table = &self.table;
        let duration = query.sleep_length;
        if table.state_count() < 2 || table.is_enabled(0) && table.target_residency(1) > duration {
            return (0, duration);
        }
        // Enabled states are searched down to the first one (state 0 aside) that the timer is too
        // near for.
        let states = table.enabled_states().deeper_than(0);
        let in_time = match states
            .intersection(table.enabled_longer_than(duration))
            .shallowest()
        {
            Some(too_deep) => states.shallower_than(too_deep),
            None => states,
        };
        let candidate = in_time.deepest().unwrap_or(first);
        if candidate == first {
            return (first, duration);
        }
        let deepest_allowed = in_time
            .without(table.enabled_slower_than(query.latency_request))
            .deepest()
            .unwrap_or(0);
        let (state, duration) =
            self.shallower_state_if_wakeups_are_early(candidate, duration, query.tick_stopped);
        (state.min(deepest_allowed), duration)
    }
}

impl IdleGovernor for Teo61 {
    #[inline]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let table = &self.table;
        self.expected = Expectation::for_timer(table, query.sleep_length, query.clock);
        let first = table.enabled_states().shallowest().unwrap_or(0);
        let (mut state, duration) = self.choose_state_and_duration(query, first);
        let keep_tick = !query.tick_stopped && (table.is_polling(state) || duration < self.tick);
        if keep_tick && state > first && table.target_residency(state) > query.delta_tick {
            state = table.fall_back_state(state, query.delta_tick);
        }
        IdleDecision {
            state,
            stop_tick: !keep_tick,
        }
    }

    #[inline]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        if outcome.residency == 0 {
            return;
        }
        let measured = self
            .expected
            .measured_sleep(&self.table, self.tick, entered, outcome);
        self.count_wakeup(measured);
    }
}
