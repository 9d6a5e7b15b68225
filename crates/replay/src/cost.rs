//! Costs of idle periods in energy and latency, compared with an oracle on the same idle spans.
//!
//! The energy of an idle period is the energy in the state plus the energy for entry and exit
//! ([`wakepath_policies::idle::power`]); the oracle's energy is computed alike. The oracle knows the idle span's
//! length, and enters one state once. The package draws power besides ([`crate::package`]).

use std::ops::Range;

use wakepath_policies::idle::OracleGoal;
use wakepath_policies::idle::fit::FitBounds;
use wakepath_policies::idle::oracle::Oracle;
use wakepath_policies::idle::power::{IdlePower, StatePower};
use wakepath_units::{Nanoseconds, TickRate};

use crate::setup::GroupIdleStates;

/// Sums over the idle periods of one governor in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdlePeriodTotals {
    /// Time spent in the idle state, in ns.
    pub time: u64,
    /// Idle periods.
    pub count: u64,
    /// Number of idle periods shorter than the target residency, although a shallower state was
    /// enabled.
    pub too_deep: u64,
    /// Number of idle periods that were long enough for a deeper state.
    pub too_shallow: u64,
    /// Number of wake-ups that took longer than the oracle's.
    pub slower: u64,
    /// Total time by which wake-ups took longer than the oracle's, in ns.
    pub added_latency: u64,
    /// Number of wake-ups that took longer than the oracle's and delayed an I/O completion.
    pub slower_io: u64,
    /// Total delay of I/O completions by wake-ups that took longer than the oracle's, in ns.
    pub added_io_latency: u64,
    /// Total exit latency that I/O completions waited for, in ns, whatever the oracle's.
    pub io_exit: u64,
    /// Energy beyond the oracle's, in fJ. A single state can be below zero; only the sum over
    /// states counts.
    pub wasted: i128,
    /// Energy, in fJ.
    pub energy: u128,
}

impl IdlePeriodTotals {
    /// Adds another sum.
    pub fn add_totals(&mut self, other: &Self) {
        self.time += other.time;
        self.count += other.count;
        self.too_deep += other.too_deep;
        self.too_shallow += other.too_shallow;
        self.slower += other.slower;
        self.added_latency += other.added_latency;
        self.slower_io += other.slower_io;
        self.added_io_latency += other.added_io_latency;
        self.io_exit += other.io_exit;
        self.wasted += other.wasted;
        self.energy += other.energy;
    }

    /// Counts an I/O completion that waited `exit` ns for the last wake-up, `added` ns longer than with the
    /// oracle.
    pub fn count_possibly_delayed_io(&mut self, added: u64, exit: u64) {
        self.io_exit += exit;
        self.slower_io += u64::from(added > 0);
        self.added_io_latency += added;
    }
}

/// Sums over idle periods for one governor, by block of time and idle state.
#[derive(Clone, Debug)]
pub struct TotalsByBlock {
    states: usize,
    list: Vec<IdlePeriodTotals>,
    /// Index of the current block of time, in which periods are counted.
    block: usize,
    /// Sums by idle state since the current block became current; not in `list` yet.
    current: Vec<IdlePeriodTotals>,
}

impl TotalsByBlock {
    /// Empty sums for a number of blocks of time and idle states.
    pub fn new(blocks: usize, states: usize) -> Self {
        Self {
            states,
            list: vec![IdlePeriodTotals::default(); blocks * states],
            block: 0,
            current: vec![IdlePeriodTotals::default(); states],
        }
    }

    /// Makes a block of time current and returns its sums by idle state, to add to.
    #[inline(always)]
    pub fn make_block_current(&mut self, block: usize) -> &mut [IdlePeriodTotals] {
        if block != self.block {
            self.store_sums_and_switch_block(block);
        }
        &mut self.current
    }

    #[cold]
    fn store_sums_and_switch_block(&mut self, block: usize) {
        let from = self.block * self.states;
        for (sum, current) in self.list.iter_mut().skip(from).zip(&mut self.current) {
            sum.add_totals(&std::mem::take(current));
        }
        self.block = block;
    }

    /// Adds up the sums over some blocks of time, by idle state.
    pub fn totals_over_blocks(&self, blocks: Range<usize>) -> Vec<IdlePeriodTotals> {
        let mut sums = if blocks.contains(&self.block) {
            self.current.clone()
        } else {
            vec![IdlePeriodTotals::default(); self.states]
        };
        let list = self
            .list
            .get(blocks.start * self.states..blocks.end * self.states);
        for block_totals in list.unwrap_or_default().chunks(self.states.max(1)) {
            for (sum, totals) in sums.iter_mut().zip(block_totals) {
                sum.add_totals(totals);
            }
        }
        sums
    }
}

/// Judge of idle spans on CPUs with the same idle states, by an oracle.
#[derive(Clone, Debug)]
pub struct IdlePeriodJudge {
    states: GroupIdleStates,
    oracle: Oracle,
    /// Rules for judging idle periods, one for each idle state.
    rules: Vec<StateRule>,
}

/// Rules for judging idle periods in one idle state.
#[derive(Clone, Copy, Debug)]
pub struct StateRule {
    bounds: FitBounds,
    /// True exit latency of the state in ns.
    pub exit: u64,
    /// Declared exit latency of the state in ns.
    pub exit_latency: u64,
    /// Whether the CPU polls in this state.
    pub polling: bool,
}

/// The oracle's choice of an idle state for an idle span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OracleChoice {
    /// The state entered.
    pub state: usize,
    /// True exit latency of the chosen state in ns.
    pub exit: u64,
    /// Energy for entering and leaving the chosen state, in fJ.
    transitions: u64,
}

impl IdlePeriodJudge {
    /// Makes a judge for CPUs with these idle states.
    pub fn new(states: &GroupIdleStates, tick: TickRate) -> Self {
        let list = &states.declared;
        Self {
            oracle: match &states.power {
                Some(power) => Oracle::new_with_idle_power(list, OracleGoal::Energy, tick, power),
                None => Oracle::new(list, OracleGoal::Energy, tick),
            },
            rules: list
                .iter()
                .enumerate()
                .map(|(state, declared)| StateRule {
                    bounds: FitBounds::for_state(list, state),
                    exit: states.exit.get(state).map_or(0, |exit| exit.0),
                    exit_latency: declared.exit_latency.0,
                    polling: declared.polling,
                })
                .collect(),
            states: states.clone(),
        }
    }

    /// Rules for judging idle periods in a state; `None` if the CPU has no such state.
    #[inline(always)]
    pub fn rule_for_state(&self, state: usize) -> Option<&StateRule> {
        self.rules.get(state)
    }

    /// Chooses the oracle's state for an idle span of `length` ns in which the package may save
    /// `package_saving` fJ.
    #[inline(always)]
    pub fn choose_like_oracle(
        &self,
        length: u64,
        package_saving: i64,
        latency_request: i64,
    ) -> OracleChoice {
        let state = self
            .oracle
            .best_state(length, package_saving, latency_request);
        let transitions = match &self.states.power {
            Some(power) => {
                power_in_state(power, state).extra_transition_femtojoules(Nanoseconds(length))
            }
            None => 0,
        };
        OracleChoice {
            state,
            exit: self.rules.get(state).map_or(0, |rule| rule.exit),
            transitions: u64::try_from(transitions).unwrap_or(u64::MAX),
        }
    }

    /// Whether an idle state is the CPU's deepest, in which alone the package may sleep.
    #[inline(always)]
    pub fn is_deepest(&self, state: usize) -> bool {
        state + 1 == self.rules.len()
    }

    /// Adds an idle period in a state to the sums in `totals`. `ends_span`: the idle span ended with
    /// this period. Returns the time by which the wake-up was slower than the oracle's, in ns.
    #[inline(always)]
    pub fn account_period_and_added_latency(
        &self,
        totals: &mut [IdlePeriodTotals],
        state: usize,
        duration: u64,
        ends_span: bool,
        best: OracleChoice,
    ) -> u64 {
        let (Some(sums), Some(rule)) = (totals.get_mut(state), self.rules.get(state)) else {
            return 0;
        };
        sums.time += duration;
        sums.count += 1;
        sums.too_deep += u64::from(duration < rule.bounds.shortest);
        sums.too_shallow += u64::from(duration > rule.bounds.longest);
        if let Some(power) = &self.states.power {
            let (energy, wasted) = energy_and_waste(power, state, duration, ends_span, best);
            sums.energy += energy;
            sums.wasted += wasted;
        }
        if !ends_span {
            return 0;
        }
        let added = rule.exit.saturating_sub(best.exit);
        sums.slower += u64::from(added > 0);
        sums.added_latency += added;
        added
    }
}

fn power_in_state(power: &IdlePower, state: usize) -> StatePower {
    power.states.get(state).copied().unwrap_or_default()
}

/// Energy of an idle period, and the part of the energy beyond the oracle's, in fJ.
#[inline(never)]
fn energy_and_waste(
    power: &IdlePower,
    state: usize,
    duration: u64,
    ends_span: bool,
    best: OracleChoice,
) -> (u128, i128) {
    let time = Nanoseconds(duration);
    let energy = power_in_state(power, state).idle_femtojoules(time);
    let mut oracle = power_in_state(power, best.state)
        .asleep
        .femtojoules_over(time);
    if ends_span {
        oracle += u128::from(best.transitions);
    }
    (energy, energy as i128 - oracle as i128)
}
