//! What an idle period cost, against what the oracle would have done with the same idle span.
//!
//! The energy of an idle period is that of the state and of the way in and out
//! ([`wakepath_policies::idle::power`]), as for the oracle itself. The oracle, which knows the idle span's
//! length, enters one state once. What the package draws comes on top ([`crate::package`]).

use std::ops::Range;

use wakepath_policies::idle::OracleGoal;
use wakepath_policies::idle::fit::FitBounds;
use wakepath_policies::idle::oracle::Oracle;
use wakepath_policies::idle::power::{IdlePower, StatePower};
use wakepath_units::{Nanoseconds, TickRate};

use crate::setup::States;

/// What comes together for one governor in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time in the state, in ns.
    pub time: u64,
    /// Idle periods.
    pub count: u64,
    /// Those shorter than the target residency, although a shallower state was there.
    pub too_deep: u64,
    /// Those as long as a deeper state wants.
    pub too_shallow: u64,
    /// Wake-ups that took longer than the oracle's.
    pub slower: u64,
    /// By how much, all together, in ns.
    pub added_latency: u64,
    /// Those of them that an I/O completion waited for.
    pub slower_io: u64,
    /// By how much, in ns.
    pub added_io_latency: u64,
    /// Energy beyond the oracle's, in fJ. A state can be below zero: the sum over states counts.
    pub wasted: i128,
    /// Energy, in fJ.
    pub energy: u128,
}

impl Totals {
    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.count += other.count;
        self.too_deep += other.too_deep;
        self.too_shallow += other.too_shallow;
        self.slower += other.slower;
        self.added_latency += other.added_latency;
        self.slower_io += other.slower_io;
        self.added_io_latency += other.added_io_latency;
        self.wasted += other.wasted;
        self.energy += other.energy;
    }

    /// An I/O completion waited for the last wake-up, `added` ns longer than with the oracle.
    pub fn delay_io(&mut self, added: u64) {
        self.slower_io += u64::from(added > 0);
        self.added_io_latency += added;
    }
}

/// What comes together for one governor, by block of time and state.
#[derive(Clone, Debug)]
pub struct TotalsByBlock {
    states: usize,
    list: Vec<Totals>,
    /// The block that is counted in.
    block: usize,
    /// What came together in it since it was turned to.
    here: Vec<Totals>,
}

impl TotalsByBlock {
    /// Nothing yet, for so many blocks and states.
    pub fn new(blocks: usize, states: usize) -> Self {
        Self {
            states,
            list: vec![Totals::default(); blocks * states],
            block: 0,
            here: vec![Totals::default(); states],
        }
    }

    /// Those of a block by state, to add to.
    #[inline(always)]
    pub fn of_mut(&mut self, block: usize) -> &mut [Totals] {
        if block != self.block {
            self.turn_to(block);
        }
        &mut self.here
    }

    #[cold]
    fn turn_to(&mut self, block: usize) {
        let from = self.block * self.states;
        for (sum, here) in self.list.iter_mut().skip(from).zip(&mut self.here) {
            sum.add(&std::mem::take(here));
        }
        self.block = block;
    }

    /// Sums over some blocks, by state.
    pub fn sums(&self, blocks: Range<usize>) -> Vec<Totals> {
        let mut sums = if blocks.contains(&self.block) {
            self.here.clone()
        } else {
            vec![Totals::default(); self.states]
        };
        let list = self
            .list
            .get(blocks.start * self.states..blocks.end * self.states);
        for of_block in list.unwrap_or_default().chunks(self.states.max(1)) {
            for (sum, totals) in sums.iter_mut().zip(of_block) {
                sum.add(totals);
            }
        }
        sums
    }
}

/// Judges idle spans on CPUs of one kind.
#[derive(Clone, Debug)]
pub struct Judge {
    states: States,
    oracle: Oracle,
    /// Of each state, what an idle period is judged by.
    rules: Vec<Rule>,
}

/// What idle periods in a state are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    bounds: FitBounds,
    /// How long leaving it takes, in ns.
    exit: u64,
    /// How long that takes as declared, in ns.
    pub exit_latency: u64,
    /// The CPU polls in it.
    pub polling: bool,
}

/// What the oracle does with an idle span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Best {
    /// The state that it enters.
    pub state: usize,
    /// How long leaving it takes, in ns.
    pub exit: u64,
    /// What going in and out takes beyond being in the state, in fJ.
    transitions: u64,
}

impl Judge {
    /// For these states.
    pub fn new(states: &States, tick: TickRate) -> Self {
        let list = &states.declared;
        Self {
            oracle: match &states.power {
                Some(power) => Oracle::with_power(list, OracleGoal::Energy, tick, power),
                None => Oracle::new(list, OracleGoal::Energy, tick),
            },
            rules: list
                .iter()
                .enumerate()
                .map(|(state, declared)| Rule {
                    bounds: FitBounds::new(list, state),
                    exit: states.exit.get(state).map_or(0, |exit| exit.0),
                    exit_latency: declared.exit_latency.0,
                    polling: declared.polling,
                })
                .collect(),
            states: states.clone(),
        }
    }

    /// What idle periods in a state are judged by, if there is such a state.
    #[inline(always)]
    pub fn rule(&self, state: usize) -> Option<&Rule> {
        self.rules.get(state)
    }

    /// The oracle's state for an idle span of `length` ns in which the package may save `package_saving` fJ.
    #[inline(always)]
    pub fn best(&self, length: u64, package_saving: i64, latency_request: i64) -> Best {
        let state = self
            .oracle
            .state_for(length, package_saving, latency_request);
        let transitions = match &self.states.power {
            Some(power) => of_state(power, state).transitions(Nanoseconds(length)),
            None => 0,
        };
        Best {
            state,
            exit: self.rules.get(state).map_or(0, |rule| rule.exit),
            transitions: u64::try_from(transitions).unwrap_or(u64::MAX),
        }
    }

    /// Whether the package may sleep while a CPU is in this state.
    #[inline(always)]
    pub fn is_deepest(&self, state: usize) -> bool {
        state + 1 == self.rules.len()
    }

    /// Accounts an idle period. `last`: what came next was the idle span's end. Returns how much longer than the
    /// oracle's the wake-up took, in ns.
    #[inline(always)]
    pub fn account(
        &self,
        totals: &mut [Totals],
        state: usize,
        duration: u64,
        last: bool,
        best: Best,
    ) -> u64 {
        let (Some(t), Some(rule)) = (totals.get_mut(state), self.rules.get(state)) else {
            return 0;
        };
        t.time += duration;
        t.count += 1;
        t.too_deep += u64::from(duration < rule.bounds.shortest);
        t.too_shallow += u64::from(duration > rule.bounds.longest);
        if let Some(power) = &self.states.power {
            let (energy, wasted) = energies(power, state, duration, last, best);
            t.energy += energy;
            t.wasted += wasted;
        }
        if !last {
            return 0;
        }
        let added = rule.exit.saturating_sub(best.exit);
        t.slower += u64::from(added > 0);
        t.added_latency += added;
        added
    }
}

fn of_state(power: &IdlePower, state: usize) -> StatePower {
    power.states.get(state).copied().unwrap_or_default()
}

/// The energy of an idle period, and what of it the oracle would have saved, in fJ.
#[inline(never)]
fn energies(
    power: &IdlePower,
    state: usize,
    duration: u64,
    last: bool,
    best: Best,
) -> (u128, i128) {
    let time = Nanoseconds(duration);
    let energy = of_state(power, state).femtojoules(time);
    let mut oracle = of_state(power, best.state).asleep.femtojoules_over(time);
    if last {
        oracle += u128::from(best.transitions);
    }
    (energy, energy as i128 - oracle as i128)
}
