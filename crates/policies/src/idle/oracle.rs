//! The oracle knows how long the CPU will stay idle. It is the physical limit against which every
//! governor is judged.

use wakepath_hardware::IdleStates;
use wakepath_hardware::idle::MAX_STATES;
use wakepath_units::{Microwatts, Nanoseconds, TickRate};

use super::table::{StateSet, StateTable};
use super::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, OracleGoal};

/// What the idle states of a CPU draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdlePower {
    /// Power in each idle state, shallowest first.
    pub states: Vec<Microwatts>,
    /// Power while the CPU is on its way out of a state, which is that of a running CPU.
    pub active: Microwatts,
}

/// The governor that knows [`IdleQuery::true_idle`].
///
/// - [`OracleGoal::Energy`]: the enabled state, among those that may be left within the latency
///   request, that takes the least energy for the idle time at hand.
/// - [`OracleGoal::Latency`]: the enabled state that is left soonest, whatever the latency request;
///   among equals the one that takes the least energy.
///
/// With power figures, the energy of an idle time *T* in state *s* is
/// *power(s) x T + active power x exit latency(s)*: the CPU sleeps until the wake-up and then spends
/// the declared exit latency on the way out. Without them the target residency stands in, which is
/// by definition the idle time from which a state costs less than the next shallower one: the
/// deepest state whose target residency is not above *T* wins, or the shallowest if there is none.
///
/// If no state meets the latency request, the shallowest enabled one is taken (state 0 if none is
/// enabled). The tick is stopped if the state does not poll and the idle time is at least one tick.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub(in crate::idle) table: StateTable,
    goal: OracleGoal,
    tick: u64,
    /// Femtojoules per nanosecond in each state, and for leaving each state once.
    energy: Option<[(u64, u128); MAX_STATES]>,
}

impl Oracle {
    /// An oracle that judges energy by the states' target residencies.
    pub fn new(states: &IdleStates, goal: OracleGoal, tick: TickRate) -> Self {
        Self {
            table: StateTable::new(states),
            goal,
            tick: tick.period().0,
            energy: None,
        }
    }

    /// An oracle that judges energy by power figures. A state without a figure counts as drawing
    /// the active power.
    pub fn with_power(
        states: &IdleStates,
        goal: OracleGoal,
        tick: TickRate,
        power: &IdlePower,
    ) -> Self {
        let mut oracle = Self::new(states, goal, tick);
        let mut energy = [(power.active.0, 0); MAX_STATES];
        for (i, (entry, state)) in energy.iter_mut().zip(states.iter()).enumerate() {
            let sleeping = power.states.get(i).unwrap_or(&power.active);
            *entry = (
                sleeping.0,
                power.active.femtojoules_over(state.exit_latency),
            );
        }
        oracle.energy = Some(energy);
        oracle
    }

    /// The member of `states` that takes the least energy for an idle time; the shallower of equals.
    #[inline(always)]
    fn cheapest(&self, states: StateSet, idle: u64) -> Option<usize> {
        if let Some(energy) = &self.energy {
            return cheapest_by_power(energy, states, idle);
        }
        let time = i64::try_from(idle).unwrap_or(i64::MAX);
        states
            .without(self.table.longer_than(time))
            .deepest()
            .or(states.shallowest())
    }

    /// The members of `states` that are left soonest.
    fn quickest(&self, states: StateSet) -> StateSet {
        let soonest = (0..MAX_STATES)
            .filter(|&state| states.contains(state))
            .map(|state| self.table.exit_latency(state))
            .min();
        soonest.map_or(states, |latency| {
            states.without(self.table.slower_than(latency))
        })
    }
}

/// As [`Oracle::cheapest`], where the power is known.
fn cheapest_by_power(
    energy: &[(u64, u128); MAX_STATES],
    states: StateSet,
    idle: u64,
) -> Option<usize> {
    (0..MAX_STATES)
        .filter(|&state| states.contains(state))
        .min_by_key(|&state| {
            let (sleeping, leaving) = energy[state];
            Microwatts(sleeping)
                .femtojoules_over(Nanoseconds(idle))
                .saturating_add(leaving)
        })
}

impl Oracle {
    /// The state for an idle time of `true_idle` ns, within a latency request in ns.
    #[inline(always)]
    pub fn state_for(&self, true_idle: u64, latency_request: i64) -> usize {
        let enabled = self.table.enabled();
        let candidates = match self.goal {
            OracleGoal::Energy => enabled.without(self.table.slower_than(latency_request)),
            OracleGoal::Latency => self.quickest(enabled),
        };
        self.cheapest(candidates, true_idle)
            .or(enabled.shallowest())
            .unwrap_or(0)
    }
}

impl IdleGovernor for Oracle {
    #[inline(always)]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let state = self.state_for(query.true_idle, query.latency_request);
        IdleDecision {
            state,
            stop_tick: !self.table.polls(state) && query.true_idle >= self.tick,
        }
    }

    fn reflect(&mut self, _entered: usize, _outcome: &IdleOutcome) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::{states, tables};
    use proptest::prelude::*;

    fn query(true_idle: u64, latency_request: i64) -> IdleQuery {
        IdleQuery {
            latency_request,
            true_idle,
            ..IdleQuery::default()
        }
    }

    #[test]
    fn it_breaks_even_at_the_target_residency() {
        let list = states(&[(0, 0), (10_000, 20_000), (100_000, 400_000)], true);
        let mut oracle = Oracle::new(&list, OracleGoal::Energy, TickRate::HZ_250);
        let chosen = |oracle: &mut Oracle, idle| oracle.select(&query(idle, i64::MAX)).state;
        assert_eq!(chosen(&mut oracle, 19_999), 0);
        assert_eq!(chosen(&mut oracle, 20_000), 1);
        assert_eq!(chosen(&mut oracle, 399_999), 1);
        assert_eq!(chosen(&mut oracle, 400_000), 2);
        assert_eq!(oracle.select(&query(400_000, 50_000)).state, 1);
    }

    #[test]
    fn with_power_figures_the_break_even_follows_from_them() {
        let list = states(&[(0, 0), (10_000, 1)], false);
        let power = IdlePower {
            states: vec![Microwatts(1_000_000), Microwatts(200_000)],
            active: Microwatts(2_000_000),
        };
        let mut oracle = Oracle::with_power(&list, OracleGoal::Energy, TickRate::HZ_250, &power);
        // 1 W x T against 0.2 W x T + 2 W x 10 us: equal at 25 us.
        assert_eq!(oracle.select(&query(25_000, i64::MAX)).state, 0);
        assert_eq!(oracle.select(&query(25_001, i64::MAX)).state, 1);
    }

    #[test]
    fn latency_first_then_energy() {
        let list = states(&[(5_000, 0), (5_000, 50_000), (80_000, 90_000)], false);
        let mut oracle = Oracle::new(&list, OracleGoal::Latency, TickRate::HZ_250);
        assert_eq!(oracle.select(&query(40_000, 0)).state, 0);
        assert_eq!(oracle.select(&query(9_000_000, 0)).state, 1);
        assert!(oracle.select(&query(9_000_000, 0)).stop_tick);
    }

    proptest! {
        #[test]
        fn no_allowed_state_takes_less_energy(
            list in tables(),
            draws in prop::collection::vec(0_u64..3_000_000, MAX_STATES),
            idle in 0_u64..5_000_000,
            limit in 0_i64..2_000_000,
        ) {
            let power = IdlePower {
                states: draws.iter().map(|&uw| Microwatts(uw)).collect(),
                active: Microwatts(3_000_000),
            };
            let cost = |i: usize| {
                u128::from(draws[i]) * u128::from(idle)
                    + 3_000_000 * u128::from(list[i].exit_latency.0)
            };
            let mut oracle =
                Oracle::with_power(&list, OracleGoal::Energy, TickRate::HZ_1000, &power);
            let chosen = oracle.select(&query(idle, limit)).state;
            for i in 0..list.len() {
                if !list[i].disabled && list[i].exit_latency.0 as i64 <= limit {
                    prop_assert!(cost(chosen) <= cost(i));
                }
            }
        }

        #[test]
        fn the_latency_goal_leaves_no_quicker_state(list in tables(), idle in any::<u64>()) {
            let mut oracle = Oracle::new(&list, OracleGoal::Latency, TickRate::HZ_250);
            let chosen = oracle.select(&query(idle, 0)).state;
            for state in list.iter().filter(|s| !s.disabled) {
                prop_assert!(list[chosen].exit_latency <= state.exit_latency);
            }
        }
    }
}
