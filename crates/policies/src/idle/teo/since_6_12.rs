//! teo from Linux 6.12 to 7.3, which looks at timers only where necessary.

use std::ops::ControlFlow;

use wakepath_hardware::IdleStates;
use wakepath_units::TickRate;

use super::bins::{Bins, Event, PULSE};
use super::expectation::{self, Expectation, state_for_early_wakeups};
use super::generations::{
    CutShort, GENERATIONS, Hit, KeepsTick, Lookup, Rules, Search, TickWakeups, Total,
};
use crate::idle::interface::{
    IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, RESIDENCY_THRESHOLD_NS,
};
use crate::idle::table::StateTable;

/// A latency request below this forces shallow states, whatever wakes the CPU (`LATENCY_THRESHOLD_NS`).
const LATENCY_THRESHOLD_NS: i64 = RESIDENCY_THRESHOLD_NS / 2;

/// The teo governor of generation `GENERATION`, an index into `GENERATIONS`.
#[derive(Clone, Debug)]
pub struct Teo<const GENERATION: usize> {
    pub(in crate::idle) table: StateTable,
    tick: i64,
    expected: Expectation,
    bins: Bins,
    /// Number of all wake-ups as teo reckons it.
    total: u32,
    /// For [`Hit::OneMoreBin`]: whether an extra bin exists behind the deepest state's, because the
    /// deepest state pays off within a tick.
    tick_bin: bool,
    /// Hits counted in the extra bin.
    tick_hits: u32,
    /// Number of wake-ups by the tick; decays like other counters.
    tick_wakeups: u32,
    /// Intercepts counted for [`KeepsTick`]: whether the tick stays on.
    tick_intercepts: u32,
    /// Number of wake-ups within 15 us; decays like other counters.
    short_idles: u32,
}

impl<const GENERATION: usize> Teo<GENERATION> {
    const RULES: Rules = GENERATIONS[GENERATION].rules;

    /// The teo governor of a CPU that was never idle.
    pub fn new(states: &IdleStates, tick: TickRate) -> Self {
        let table = StateTable::new(states);
        let tick = tick.period().0 as i64;
        let mut teo = Self {
            tick,
            expected: Expectation::for_timer(&table, 0, 0),
            bins: Bins::new(states.len()),
            total: 0,
            tick_bin: table.target_residency(table.deepest_index()) < tick,
            tick_hits: 0,
            tick_wakeups: 0,
            tick_intercepts: 0,
            short_idles: 0,
            table,
        };
        // The kernel's zeroed memory looks as if the CPU had just left state 0 after no time, when
        // a timer was due.
        teo.learn_from_outcome(0, &IdleOutcome::default());
        teo
    }

    /// Decays a teo counter by an eighth.
    #[inline]
    fn decay_counter(counter: &mut u32) {
        let eighth = *counter >> 3;
        *counter = if Self::RULES.decays_to_zero && eighth == 0 {
            0
        } else {
            *counter - eighth
        };
    }

    /// Learns from how the idle period in state `entered` ended.
    ///
    /// The kernel learns at the start of the next decision. The inputs do not change in between, so learning here is
    /// equivalent.
    #[inline(always)]
    fn learn_from_outcome(&mut self, entered: usize, outcome: &IdleOutcome) {
        if Self::RULES.decays_to_zero {
            self.bins.decay_counters_to_zero();
        } else {
            self.bins.decay_counters();
        }
        match Self::RULES.hit {
            Hit::OneMoreBin => self.learn_with_extra_tick_bin(entered, outcome),
            Hit::SameBin | Hit::NearTimer => self.learn_by_wakeup_cause(entered, outcome),
        }
        self.bins.update_sums();
        match Self::RULES.total {
            Total::Sum => self.total = self.bins.summed_wakeups() + self.tick_hits,
            Total::Counter => {
                Self::decay_counter(&mut self.total);
                self.total += PULSE;
            }
        }
    }

    /// Learns from an idle period as teo in Linux 6.12 and 6.13.
    #[inline(always)]
    fn learn_with_extra_tick_bin(&mut self, entered: usize, outcome: &IdleOutcome) {
        let measured = self
            .expected
            .measured_sleep(&self.table, self.tick, entered, outcome);
        Self::decay_counter(&mut self.tick_hits);
        let past_the_tick = self.tick_bin && self.expected.sleep_length >= self.tick;
        if past_the_tick && measured >= self.tick as u64 {
            self.tick_hits += PULSE;
        } else {
            let bin = self.expected.bin_of_measured_sleep(&self.table, measured);
            let hit = bin == self.expected.bin && !past_the_tick;
            self.bins.count_wakeup(
                bin,
                if hit {
                    Event::HIT
                } else {
                    Event::PLAIN_INTERCEPT
                },
            );
        }
    }

    /// Learns from an idle period as teo from Linux 6.14 on.
    #[inline(always)]
    fn learn_by_wakeup_cause(&mut self, entered: usize, outcome: &IdleOutcome) {
        let rules = &Self::RULES;
        let Expectation {
            sleep_length, bin, ..
        } = self.expected;
        let exit_latency = self.table.exit_latency(entered);
        let measured = self.measured_sleep_by_cause(entered, outcome);

        Self::decay_counter(&mut self.tick_intercepts);
        Self::decay_counter(&mut self.tick_wakeups);
        if rules.tick_wakeups != TickWakeups::Unnoticed && outcome.got_tick {
            self.tick_wakeups += PULSE;
            let before = self.bins.count_all_wakeups();
            if 3 * self.tick_wakeups > 2 * (before + PULSE) {
                self.bins
                    .count_wakeup(self.table.deepest_index(), Event::HIT);
                return;
            }
            if rules.tick_wakeups == TickWakeups::IfMostOrUnexpected
                && 3 * self.tick_intercepts < 2 * before
            {
                self.bins.count_wakeup(bin, Event::HIT);
                return;
            }
        }

        let measured_bin = expectation::bin_of_duration(&self.table, measured.min(sleep_length));
        let on_time =
            rules.hit != Hit::NearTimer || sleep_length.wrapping_sub(measured) < exit_latency / 2;
        if measured_bin == bin && on_time {
            self.bins.count_wakeup(measured_bin, Event::HIT);
        } else {
            self.bins.count_wakeup(measured_bin, Event::PLAIN_INTERCEPT);
            let counts = match rules.keeps_tick {
                KeepsTick::Intercepts => false,
                KeepsTick::LateIntercepts => measured >= self.tick,
                KeepsTick::EarlyIntercepts | KeepsTick::TwoThirdsEarlyIntercepts => {
                    measured <= self.tick
                }
            };
            self.tick_intercepts += if counts { PULSE } else { 0 };
        }
    }

    /// Time in ns for which the CPU is taken to have slept: [`i64::MAX`] if something only cut a
    /// long sleep short. Also counts short idle periods.
    #[inline]
    fn measured_sleep_by_cause(&mut self, entered: usize, outcome: &IdleOutcome) -> i64 {
        let polled_enough = outcome.poll_limit_hit && self.table.is_polling(entered);
        let cut_short = match Self::RULES.cut_short {
            CutShort::Time | CutShort::Cause => {
                polled_enough || outcome.got_tick && self.expected.sleep_length > self.tick
            }
            CutShort::PollingLimit => polled_enough,
        };
        Self::decay_counter(&mut self.short_idles);
        if cut_short {
            return i64::MAX;
        }
        let exit_latency = self.table.exit_latency(entered);
        let residency = outcome.residency as i64;
        // On average, leaving a state takes perhaps half of its declared exit latency.
        let complete = residency >= exit_latency;
        let slept = if complete {
            residency - exit_latency / 2
        } else {
            residency / 2
        };
        let short = !complete || slept < RESIDENCY_THRESHOLD_NS;
        self.short_idles += if short { PULSE } else { 0 };
        slept
    }

    /// State to use instead of `candidate` if most wake-ups come before its target residency; else
    /// `candidate`. `first` is the first enabled state.
    #[inline]
    fn shallower_state_if_wakeups_are_early(
        &self,
        first: usize,
        candidate: usize,
        tick_stopped: bool,
    ) -> usize {
        let table = &self.table;
        let early = self.bins.sums_below(candidate);
        if 2 * early.intercepts <= self.total.wrapping_sub(early.hits) {
            return candidate;
        }
        // The majority is the deepest state with most of the early wake-ups in its own or a deeper
        // bin.
        let mut majority = candidate;
        while majority > 0 {
            majority -= 1;
            if 2 * self.bins.sums_below(majority).intercepts < early.intercepts {
                break;
            }
        }
        let leaves_a_tick = |state| table.target_residency(state) >= self.tick;
        match Self::RULES.search {
            Search::FirstSuitable => {
                state_for_early_wakeups(table.enabled_states(), candidate, majority, |state| {
                    !tick_stopped || leaves_a_tick(state)
                })
            }
            Search::DownToTick | Search::DownToTickFromMost | Search::FromMost => {
                let mut shallowest = first;
                if Self::RULES.search != Search::FromMost && tick_stopped {
                    while shallowest < candidate && !leaves_a_tick(shallowest) {
                        shallowest += 1;
                    }
                }
                // A bin with half of the early intercepts or more is the majority already.
                if Self::RULES.search != Search::DownToTick
                    && 2 * self.bins.intercepts_in_bin(majority) < early.intercepts
                {
                    majority =
                        majority.min(self.bins.bin_with_most_intercepts(table.deepest_index()));
                }
                let between = table
                    .enabled_states()
                    .shallower_than(candidate)
                    .at_or_deeper_than(shallowest);
                between
                    .at_or_shallower_than(majority)
                    .deepest()
                    .or(between.shallowest())
                    .unwrap_or(candidate)
            }
        }
    }

    /// Whether a running tick does no harm, because most wake-ups come before the tick would.
    #[inline]
    fn tick_does_no_harm(&self) -> bool {
        let five_eighths = self.total / 2 + self.total / 8;
        match Self::RULES.keeps_tick {
            KeepsTick::Intercepts => self.bins.summed_intercepts() > five_eighths,
            KeepsTick::LateIntercepts | KeepsTick::EarlyIntercepts => {
                self.tick_intercepts > five_eighths
            }
            KeepsTick::TwoThirdsEarlyIntercepts => 3 * self.tick_intercepts >= 2 * self.total,
        }
    }

    /// Whether a wake-up is expected so soon after the CPU enters `state` that timers do not
    /// matter.
    #[inline]
    fn timers_do_not_matter(&self, state: usize, query: &IdleQuery) -> bool {
        let soon = self.table.target_residency(state) < RESIDENCY_THRESHOLD_NS;
        let most_are_short =
            2 * self.short_idles >= self.total || query.latency_request < LATENCY_THRESHOLD_NS;
        match Self::RULES.lookup {
            Lookup::UnlessShallow => state == 0 || self.table.is_polling(0) && soon,
            Lookup::MostAreLong => (state == 0 || soon) && most_are_short,
            Lookup::MostAreLongOrTickStopped => {
                !query.tick_stopped && (state == 0 || soon) && most_are_short
            }
        }
    }
}

/// A state that teo chose, and what decides whether the tick may stop.
#[derive(Clone, Copy)]
struct Candidate {
    state: usize,
    /// Expected idle time.
    duration: i64,
    /// Time to the next timer or tick, in ns.
    delta_tick: i64,
}

impl<const GENERATION: usize> Teo<GENERATION> {
    /// Chooses among the enabled states `first` to `deepest`. `Break` is a decision that settles
    /// the tick as well.
    #[inline(always)]
    fn choose_state(
        &mut self,
        first: usize,
        deepest: usize,
        query: &IdleQuery,
    ) -> ControlFlow<IdleDecision, Candidate> {
        let rules = &Self::RULES;
        let table = &self.table;
        let enabled = table.enabled_states();
        let mut state =
            self.shallower_state_if_wakeups_are_early(first, deepest, query.tick_stopped);
        if rules.lookup == Lookup::UnlessShallow && state == 0 {
            // The timer is looked up only to learn afterwards whether the guess was right.
            self.expected = Expectation::for_timer(table, query.sleep_length, query.clock);
            return ControlFlow::Break(decision_keeping_tick(0));
        }
        let deepest_allowed = enabled
            .deeper_than(0)
            .without(table.enabled_slower_than(query.latency_request))
            .deepest()
            .unwrap_or(0);
        state = state.min(deepest_allowed);
        if self.timers_do_not_matter(state, query) {
            return ControlFlow::Break(decision_keeping_tick(state));
        }

        let mut duration = query.sleep_length;
        self.expected = Expectation::for_timer(table, duration, query.clock);
        if rules.stopped_tick_deepens
            && query.tick_stopped
            && duration > 2 * self.tick
            && table.target_residency(state) < self.tick
        {
            // Of the states that fit, some may be forbidden by the latency request: the kernel
            // assumes that states above an allowed one are allowed.
            let fitting = enabled
                .at_or_shallower_than(deepest_allowed)
                .deeper_than(state)
                .without(table.enabled_longer_than(duration));
            return ControlFlow::Break(decision_stopping_tick(fitting.deepest().unwrap_or(state)));
        }
        if state == 0 {
            return ControlFlow::Break(decision_keeping_tick(0));
        }
        if table.target_residency(state) > duration {
            let shallower = table.fall_back_state(state, duration);
            let wrong = rules.near_timer_must_leave_a_tick
                && query.tick_stopped
                && table.target_residency(shallower) < self.tick;
            if !wrong {
                state = shallower;
            }
        }
        if table.target_residency(state) < self.tick && self.tick_does_no_harm() {
            duration = self.tick / 2;
        }
        ControlFlow::Continue(Candidate {
            state,
            duration,
            delta_tick: query.delta_tick,
        })
    }

    /// Decides whether the tick stops before the candidate state. A tick that goes on may call for
    /// a shallower state.
    #[inline(always)]
    fn settle_tick(&self, candidate: Candidate, first: usize, tick_stopped: bool) -> IdleDecision {
        let table = &self.table;
        let Candidate {
            state,
            duration,
            delta_tick,
        } = candidate;
        let stop = !table.is_polling(state) && duration >= self.tick;
        if stop || tick_stopped {
            return decision_stopping_tick(state);
        }
        if state > first && table.target_residency(state) > delta_tick {
            return decision_keeping_tick(table.fall_back_state(state, delta_tick));
        }
        decision_keeping_tick(state)
    }
}

/// Decision to enter a state that keeps the tick on.
#[inline]
fn decision_keeping_tick(state: usize) -> IdleDecision {
    IdleDecision {
        state,
        stop_tick: false,
    }
}

/// Decision to enter a state that stops the tick.
#[inline]
fn decision_stopping_tick(state: usize) -> IdleDecision {
    IdleDecision {
        state,
        stop_tick: true,
    }
}

impl<const GENERATION: usize> IdleGovernor for Teo<GENERATION> {
    #[inline(always)]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let rules = &Self::RULES;
        let table = &self.table;
        // The expectation has no timer wherever teo does not look at the timers.
        self.expected = Expectation::without_timer(table, query.clock);
        let enabled = table.enabled_states();
        let (Some(first), Some(deepest)) = (enabled.shallowest(), enabled.deepest()) else {
            return decision_keeping_tick(0);
        };
        if rules.one_state_shortcut && table.state_count() < 2 {
            return decision_keeping_tick(0);
        }

        let candidate = if deepest == first {
            // With one enabled state only the tick is left to decide.
            Candidate {
                state: deepest,
                duration: table.target_residency(deepest),
                delta_tick: self.tick / 2,
            }
        } else {
            match self.choose_state(first, deepest, query) {
                ControlFlow::Continue(candidate) => candidate,
                ControlFlow::Break(decision) => return decision,
            }
        };
        self.settle_tick(candidate, first, query.tick_stopped)
    }

    #[inline(always)]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        if outcome.residency > 0 {
            self.learn_from_outcome(entered, outcome);
        }
    }
}
