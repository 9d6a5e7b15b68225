//! The menu governor: expect the CPU to sleep until the next timer, corrected by experience, unless
//! its recent wake-ups show a pattern.
//!
//! What differs from kernel to kernel is in `generations`; everything else is here.

mod generations;
mod pattern;

use wakepath_hardware::IdleStates;
use wakepath_units::{KernelVersion, TickRate};

use self::generations::{BeatsPolling, GENERATIONS, Latency, Lookup, Outliers, Rules};
use self::pattern::RecentIntervals;
use super::generations::{Entry, Generation, any_generation, index_of_generation_or_first};
use super::interface::{
    IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, RESIDENCY_THRESHOLD_NS,
};
use super::table::StateTable;

/// Correction factor 1 of menu: 1024 times the 8 steps of averaging.
const UNITY: u32 = 1024 * 8;
/// Idle times from 50 ms on count as perfectly predicted.
const LONG_ENOUGH_NS: u64 = 50_000_000;

/// The menu governor of generation `GENERATION`, an index into `GENERATIONS`.
#[derive(Clone, Debug)]
pub struct Menu<const GENERATION: usize> {
    pub(in crate::idle) table: StateTable,
    tick: u64,
    /// Correction factors of menu: the share of the time to the next timer that the CPU really
    /// slept, by magnitude; the second six apply while tasks wait for I/O. [`UNITY`] is the whole
    /// time.
    factors: [u32; 12],
    intervals: RecentIntervals,
    /// Index of the correction factor that the last prediction used.
    bucket: usize,
    /// Time to the next timer at the last prediction, in ns.
    next_timer: u64,
}

impl<const GENERATION: usize> Menu<GENERATION> {
    const RULES: Rules = GENERATIONS[GENERATION].rules;

    /// The menu governor of a CPU that was never idle.
    pub fn new(states: &IdleStates, tick: TickRate) -> Self {
        let mut menu = Self {
            table: StateTable::new(states),
            tick: tick.period().0,
            factors: [UNITY; 12],
            intervals: RecentIntervals::new(),
            bucket: 0,
            next_timer: 0,
        };
        // Before the first decision the kernel's memory looks as if the driver had refused a state.
        menu.forget_interval_if_refusal_forgets();
        menu
    }

    /// Forgets the last interval after the driver refused a state, in generations that do so.
    #[inline]
    fn forget_interval_if_refusal_forgets(&mut self) {
        if Self::RULES.refusal_forgets {
            self.intervals.replace_oldest_by_unknown();
        }
    }

    /// Typical idle interval among recent ones, in ns; longer than any timer without a typical
    /// interval.
    #[inline(always)]
    fn typical_interval_or_longest_ns(&self) -> u64 {
        let rules = &Self::RULES;
        let typical = match rules.outliers {
            Outliers::Longest => self
                .intervals
                .find_typical_without_longest(rules.scattered, rules.zeros_repeat),
            Outliers::Farthest => self
                .intervals
                .find_typical_without_farthest(rules.scattered),
        };
        u64::from(typical.unwrap_or(u32::MAX)) * 1_000
    }

    /// Predicted idle time by the timer: the time to the next timer, corrected by experience, in
    /// ns. The kernel's 64-bit product wraps and its result is cut to 32 bits of microseconds; a
    /// timer far away shows both.
    #[inline(always)]
    fn corrected_time_to_timer(&self) -> u64 {
        let unit = u64::from(UNITY) * 1_000;
        let scaled = self
            .next_timer
            .wrapping_mul(u64::from(self.factors[self.bucket]));
        u64::from((scaled.wrapping_add(unit / 2) / unit) as u32) * 1_000
    }

    /// Remembers the time to the next timer, in ns, and the correction factor that belongs to it.
    #[inline(always)]
    fn remember_time_to_timer(&mut self, next_timer: u64, nr_iowait: u32) {
        self.next_timer = next_timer;
        self.bucket = magnitude_index(next_timer)
            + if Self::RULES.latency == Latency::PredictionPerWaiter && nr_iowait > 0 {
                6
            } else {
                0
            };
    }
}

impl<const GENERATION: usize> Menu<GENERATION> {
    /// Remembers the next timer of a query, and returns the time to the next timer or tick, in ns.
    #[inline(always)]
    fn remember_timer_and_get_delta_tick(
        &mut self,
        query: &IdleQuery,
        timer_looked_up: bool,
    ) -> i64 {
        if !timer_looked_up {
            // The idle time is too short for the timers to matter, so they are taken to be far away
            // and the tick to be half a period off.
            self.remember_time_to_timer(i64::MAX as u64, query.nr_iowait);
            (self.tick / 2) as i64
        } else if query.sleep_length < 0 {
            self.remember_time_to_timer(0, query.nr_iowait);
            0
        } else {
            self.remember_time_to_timer(query.sleep_length as u64, query.nr_iowait);
            query.delta_tick
        }
    }

    /// Latency that menu tolerates: the request, lowered to a latency that is small beside the
    /// predicted idle time. While the tick is stopped, the request alone counts.
    #[inline(always)]
    fn tolerated_latency(query: &IdleQuery, predicted: u64) -> i64 {
        let rule = Self::RULES.latency;
        if query.tick_stopped || rule == Latency::Request {
            return query.latency_request;
        }
        let per_waiter = rule == Latency::PredictionPerWaiter && query.nr_iowait > 0;
        let tolerated = if per_waiter {
            predicted / latency_divisor_for_waiting_tasks(query.nr_iowait)
        } else {
            predicted
        };
        (query.latency_request as u64).min(tolerated) as i64
    }

    /// Whether sleeping in a state beats polling, although its target residency is too long: never
    /// if a timer is about to fire.
    #[inline(always)]
    fn sleeping_beats_polling(&self, state: usize, latency: i64, predicted: u64) -> bool {
        let residency = self.table.target_residency(state);
        let exit_latency = self.table.exit_latency(state);
        residency as u64 <= self.next_timer
            && match Self::RULES.beats_polling {
                BeatsPolling::Tolerated => exit_latency <= latency,
                BeatsPolling::Predicted => exit_latency as u64 <= predicted,
                BeatsPolling::PredictedAndSoon => {
                    residency < RESIDENCY_THRESHOLD_NS && exit_latency as u64 <= predicted
                }
            }
    }
}

any_generation!(
    $ menu AnyMenu for_each_menu Menu: G0
    G1 = 1 G2 = 2 G3 = 3 G4 = 4 G5 = 5 G6 = 6 G7 = 7
    G8 = 8 G9 = 9 G10 = 10 G11 = 11 G12 = 12 G13 = 13 G14 = 14
    G15 = 15 G16 = 16 G17 = 17 G18 = 18 G19 = 19 G20 = 20
);

impl AnyMenu {
    /// The menu governor of a kernel release, for a CPU that was never idle.
    pub fn new(kernel: KernelVersion, states: &IdleStates, tick: TickRate) -> Self {
        Self::new_for_generation(
            index_of_generation_or_first(menu_generations(), kernel),
            states,
            tick,
        )
    }
}

/// Generations of the menu governor, oldest series first.
pub fn menu_generations() -> impl Iterator<Item = &'static Generation> + Clone {
    const LIST: &[Entry<Rules>] = &GENERATIONS;
    LIST.iter().map(|entry| &entry.generation)
}

impl<const GENERATION: usize> IdleGovernor for Menu<GENERATION> {
    #[inline(always)]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let rules = &Self::RULES;
        let always = rules.lookup == Lookup::Always;
        let mut typical = if always {
            0
        } else {
            self.typical_interval_or_longest_ns()
        };
        let looked_up = always
            || typical > RESIDENCY_THRESHOLD_NS as u64
            || rules.lookup == Lookup::UnlessSoonWithTick && query.tick_stopped;
        let delta_tick = self.remember_timer_and_get_delta_tick(query, looked_up);
        let next_timer = self.next_timer;
        let table = &self.table;
        let no_choice = rules.one_state_shortcut && table.state_count() <= 1;
        if no_choice || only_state_0_will_do(table, next_timer, query.latency_request) {
            return IdleDecision {
                state: 0,
                stop_tick: !table.is_polling(0),
            };
        }

        if always {
            typical = self.typical_interval_or_longest_ns();
        }
        let mut predicted = typical;
        if looked_up {
            predicted = predicted.min(self.corrected_time_to_timer());
        }
        // With the tick stopped no tick corrects a wrong guess: rely on the timer rather than on
        // experience, unless the timer itself comes soon.
        if query.tick_stopped
            && predicted < self.tick
            && next_timer > rules.near_timer_ticks * self.tick
        {
            predicted = next_timer;
        }
        let latency = Self::tolerated_latency(query, predicted);

        let walked = walk_down_states(table, latency, predicted);
        let candidate = Candidate {
            chosen: walked.chosen,
            next: walked
                .stopped_by
                .filter(|stop| {
                    if rules.latency_first {
                        !stop.too_slow
                    } else {
                        stop.too_long
                    }
                })
                .map(|stop| stop.state),
            predicted,
            delta_tick,
        };
        decide_state_and_tick(table, self.tick, query.tick_stopped, candidate, |next| {
            self.sleeping_beats_polling(next, latency, predicted)
        })
    }

    /// Menu learns here from the idle period. The kernel learns at the start of the next decision;
    /// the inputs do not change in between.
    #[inline(always)]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        if outcome.residency == 0 {
            self.forget_interval_if_refusal_forgets();
            return;
        }
        let table = &self.table;
        let slept = if outcome.got_tick && self.next_timer > self.tick {
            // A tick that menu itself left running kept the CPU from sleeping on: it might have
            // been a long sleep, though not a perfect one.
            LONG_ENOUGH_NS * 9 / 10
        } else if outcome.poll_limit_hit && table.is_polling(entered) {
            // A CPU that reached the polling limit would have polled until the timer.
            self.next_timer
        } else {
            let exit_latency = table.exit_latency(entered) as u64;
            if outcome.residency > exit_latency.wrapping_mul(2) {
                outcome.residency.wrapping_sub(exit_latency)
            } else {
                outcome.residency / 2
            }
        };
        let slept = slept.min(self.next_timer);

        let share = if self.next_timer > 0 && slept < LONG_ENOUGH_NS {
            1024 * slept / self.next_timer
        } else {
            1024
        };
        let factor = &mut self.factors[self.bucket];
        *factor = *factor - *factor / 8 + share as u32;

        let longest = match Self::RULES.outliers {
            Outliers::Longest => i32::MAX as u32,
            Outliers::Farthest => u32::MAX - 1,
        };
        self.intervals
            .replace_oldest_interval((slept / 1_000) as u32, longest);
    }

    fn interval_search_passes(&self) -> u32 {
        self.intervals.count_search_passes(Self::RULES.outliers)
    }
}

/// Divisor of the tolerated latency for `waiting` tasks in iowait. The kernel computes 32 bits,
/// then sign-extends; an odd number is never zero.
#[inline]
fn latency_divisor_for_waiting_tasks(waiting: u32) -> u64 {
    i64::from(waiting.wrapping_mul(10).wrapping_add(1) as i32) as u64
}

/// Magnitude of a duration, 0 to 5: below 10 us, 100 us, 1 ms, 10 ms, 100 ms, or longer.
#[inline(always)]
fn magnitude_index(duration_ns: u64) -> usize {
    [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
        .iter()
        .map(|&limit| usize::from(duration_ns >= limit))
        .sum()
}

/// Where the walk from the shallowest idle state down ended.
struct Walk {
    /// Deepest enabled state such that this state and all shallower ones passed every check; the
    /// first enabled state if none passed.
    chosen: usize,
    /// Enabled state that stopped the walk, and whether it was too slow to leave or too long;
    /// `None` if none did.
    stopped_by: Option<Stop>,
}

struct Stop {
    state: usize,
    too_slow: bool,
    too_long: bool,
}

/// Walks from the shallowest enabled state down for as long as states may be left within `latency`
/// and pay off within `predicted`, both in ns.
#[inline(always)]
fn walk_down_states(table: &StateTable, latency: i64, predicted: u64) -> Walk {
    let too_slow = table.enabled_with_longer_exit(latency);
    // A prediction beyond the signed range is beyond every target residency.
    let too_long =
        table.enabled_with_longer_residency(i64::try_from(predicted).unwrap_or(i64::MAX));
    match too_slow.union(too_long).shallowest() {
        Some(state) => Walk {
            chosen: table
                .enabled_states()
                .shallower_than(state)
                .deepest()
                .unwrap_or(state),
            stopped_by: Some(Stop {
                state,
                too_slow: too_slow.contains(state),
                too_long: too_long.contains(state),
            }),
        },
        None => Walk {
            chosen: table.enabled_states().deepest().unwrap_or(0),
            stopped_by: None,
        },
    }
}

/// Whether menu has nothing to choose: no latency allowed, or a timer or latency request too near
/// for state 1 while state 0 is enabled.
#[inline(always)]
fn only_state_0_will_do(table: &StateTable, next_timer: u64, latency_request: i64) -> bool {
    latency_request == 0
        || table.is_enabled(0)
            && (next_timer < table.target_residency(1) as u64
                || latency_request < table.exit_latency(1))
}

/// A state that menu chose by its latency and the predicted idle time, and what else bears on the
/// decision.
#[derive(Clone, Copy)]
struct Candidate {
    chosen: usize,
    /// Next deeper state, if only the prediction speaks against it.
    next: Option<usize>,
    predicted: u64,
    /// Time to the next timer or tick, in ns.
    delta_tick: i64,
}

/// Turns a candidate into a decision that makes up for a wrong prediction, with the tick as the
/// safety net. A candidate that polls gives way to the next state if that `beats_polling`. One that
/// would be left alone for too long keeps the tick. Where that is stopped already, it goes deeper.
#[inline(always)]
fn decide_state_and_tick(
    table: &StateTable,
    tick: u64,
    tick_stopped: bool,
    candidate: Candidate,
    beats_polling: impl FnOnce(usize) -> bool,
) -> IdleDecision {
    let Candidate {
        chosen: mut state,
        next,
        mut predicted,
        delta_tick,
    } = candidate;
    if let Some(next) = next {
        let next_residency = table.target_residency(next);
        if table.is_polling(state) && beats_polling(next) {
            predicted = next_residency as u64;
            state = next;
        } else if predicted >= tick {
            if tick_stopped {
                // Without a tick, nothing would wake the CPU early from a shallow state.
                if table.target_residency(state) < tick as i64 && next_residency <= delta_tick {
                    state = next;
                }
                return IdleDecision {
                    state,
                    stop_tick: true,
                };
            }
            // The tick stays on, and menu decides again when it fires.
            predicted = table.target_residency(state) as u64;
        }
    }
    let keep_tick = !tick_stopped && (table.is_polling(state) || predicted < tick);
    if keep_tick && table.target_residency(state) > delta_tick {
        state = table.deepest_shallower_state_within(state, delta_tick);
    }
    IdleDecision {
        state,
        stop_tick: !keep_tick,
    }
}
