//! The oracle governor knows how long the CPU will stay idle. No other governor can do better, so
//! that each is judged against it.

use wakepath_hardware::IdleStates;
use wakepath_hardware::idle::MAX_STATES;
use wakepath_units::{Nanoseconds, TickRate};

use super::power::{IdlePower, StatePower};
use super::table::{StateSet, StateTable};
use super::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, OracleGoal};

/// The oracle governor, which decides by [`IdleQuery::true_idle`].
///
/// - [`OracleGoal::Energy`]: the enabled state, among those that may be left within the latency
///   request, that takes the least energy for the idle time at hand.
/// - [`OracleGoal::Latency`]: the enabled state that is left soonest, whatever the latency request;
///   among equals the one that takes the least energy.
///
/// With power figures, the energy of an idle time is [`StatePower::idle_femtojoules`], less [`IdleQuery::package_saving`]
/// in the deepest state of all, in which alone the package sleeps. Without them the target residency stands in: by
/// definition the idle time from which a state costs less than the next shallower one. The deepest state whose target
/// residency is not above the idle time wins, or the shallowest if there is none.
///
/// If no state meets the latency request, the shallowest enabled one is taken (state 0 if none is
/// enabled). The tick is stopped if the state does not poll and the idle time is at least one tick.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub(in crate::idle) table: StateTable,
    goal: OracleGoal,
    tick: u64,
    power: Option<[StatePower; MAX_STATES]>,
    /// Index of the deepest state.
    deepest: usize,
}

impl Oracle {
    /// An oracle governor that judges energy by the states' target residencies.
    pub fn new(states: &IdleStates, goal: OracleGoal, tick: TickRate) -> Self {
        Self {
            table: StateTable::new(states),
            goal,
            tick: tick.period().0,
            power: None,
            deepest: states.len() - 1,
        }
    }

    /// An oracle governor that judges energy by power figures.
    pub fn new_with_power(
        states: &IdleStates,
        goal: OracleGoal,
        tick: TickRate,
        power: &IdlePower,
    ) -> Self {
        let mut oracle = Self::new(states, goal, tick);
        let mut of_states = [StatePower::default(); MAX_STATES];
        for (state, power) in of_states.iter_mut().zip(&power.states) {
            *state = *power;
        }
        oracle.power = Some(of_states);
        oracle
    }

    /// Member of `states` with the least energy for an idle time in ns; the shallower in case of a
    /// tie.
    #[inline(always)]
    fn least_energy_state(
        &self,
        states: StateSet,
        idle: u64,
        package_saving: i64,
    ) -> Option<usize> {
        if let Some(power) = &self.power {
            return self.least_energy_state_by_power(power, states, idle, package_saving);
        }
        let time = i64::try_from(idle).unwrap_or(i64::MAX);
        states
            .without(self.table.enabled_longer_than(time))
            .deepest()
            .or(states.shallowest())
    }

    /// Members of `states` with the shortest exit latency.
    fn states_with_shortest_exit(&self, states: StateSet) -> StateSet {
        let soonest = (0..MAX_STATES)
            .filter(|&state| states.contains(state))
            .map(|state| self.table.exit_latency(state))
            .min();
        soonest.map_or(states, |latency| {
            states.without(self.table.enabled_slower_than(latency))
        })
    }
}

impl Oracle {
    /// Like [`Oracle::least_energy_state`], where the power of the states is known.
    fn least_energy_state_by_power(
        &self,
        power: &[StatePower; MAX_STATES],
        states: StateSet,
        idle: u64,
        package_saving: i64,
    ) -> Option<usize> {
        (0..MAX_STATES)
            .filter(|&state| states.contains(state))
            .min_by_key(|&state| {
                let saving = if state == self.deepest {
                    package_saving
                } else {
                    0
                };
                power[state].idle_femtojoules(Nanoseconds(idle)) as i128 - i128::from(saving)
            })
    }

    /// Best state for an idle time of `true_idle` ns in which the package may save `package_saving`
    /// fJ, within a latency request in ns.
    #[inline(always)]
    pub fn best_state(&self, true_idle: u64, package_saving: i64, latency_request: i64) -> usize {
        let enabled = self.table.enabled_states();
        let candidates = match self.goal {
            OracleGoal::Energy => enabled.without(self.table.enabled_slower_than(latency_request)),
            OracleGoal::Latency => self.states_with_shortest_exit(enabled),
        };
        self.least_energy_state(candidates, true_idle, package_saving)
            .or(enabled.shallowest())
            .unwrap_or(0)
    }
}

impl IdleGovernor for Oracle {
    #[inline(always)]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let state = self.best_state(query.true_idle, query.package_saving, query.latency_request);
        IdleDecision {
            state,
            stop_tick: !self.table.is_polling(state) && query.true_idle >= self.tick,
        }
    }

    fn reflect(&mut self, _entered: usize, _outcome: &IdleOutcome) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::{any_state_table, make_states};
    use proptest::prelude::*;
    use wakepath_units::Microwatts;

    fn query(true_idle: u64, latency_request: i64) -> IdleQuery {
        IdleQuery {
            latency_request,
            true_idle,
            ..IdleQuery::default()
        }
    }

    #[test]
    fn it_breaks_even_at_the_target_residency() {
        let list = make_states(&[(0, 0), (10_000, 20_000), (100_000, 400_000)], true);
        let mut oracle = Oracle::new(&list, OracleGoal::Energy, TickRate::HZ_250);
        let chosen = |oracle: &mut Oracle, idle| oracle.select(&query(idle, i64::MAX)).state;
        assert_eq!(chosen(&mut oracle, 19_999), 0);
        assert_eq!(chosen(&mut oracle, 20_000), 1);
        assert_eq!(chosen(&mut oracle, 399_999), 1);
        assert_eq!(chosen(&mut oracle, 400_000), 2);
        assert_eq!(oracle.select(&query(400_000, 50_000)).state, 1);
    }

    /// 1 W in C1; 0.2 W in C2, which takes 10 us to leave at 2 W.
    fn two_states() -> (IdleStates, IdlePower) {
        let list = make_states(&[(0, 0), (10_000, 1)], false);
        let c1 = StatePower {
            asleep: Microwatts(1_000_000),
            ..StatePower::default()
        };
        let c2 = StatePower {
            asleep: Microwatts(200_000),
            transition: Microwatts(2_000_000),
            entry: Nanoseconds(0),
            exit: Nanoseconds(10_000),
        };
        let states = vec![c1, c2];
        (list, IdlePower { states })
    }

    #[test]
    fn with_power_figures_the_break_even_follows_from_them() {
        let (list, power) = two_states();
        let mut oracle =
            Oracle::new_with_power(&list, OracleGoal::Energy, TickRate::HZ_250, &power);
        // 1 W x T against 0.2 W x T + 2 W x 10 us: equal at 25 us.
        assert_eq!(oracle.select(&query(25_000, i64::MAX)).state, 0);
        assert_eq!(oracle.select(&query(25_001, i64::MAX)).state, 1);
    }

    #[test]
    fn what_the_package_saves_counts_for_the_deepest_state() {
        let (list, power) = two_states();
        let mut oracle =
            Oracle::new_with_power(&list, OracleGoal::Energy, TickRate::HZ_250, &power);
        // At 5 us C2 costs 21 uJ and C1 5 uJ.
        for (saving, state) in [(16_000_000_000, 0), (16_000_000_001, 1)] {
            let mut query = query(5_000, i64::MAX);
            query.package_saving = saving;
            assert_eq!(oracle.select(&query).state, state);
        }
    }

    #[test]
    fn latency_first_then_energy() {
        let list = make_states(&[(5_000, 0), (5_000, 50_000), (80_000, 90_000)], false);
        let mut oracle = Oracle::new(&list, OracleGoal::Latency, TickRate::HZ_250);
        assert_eq!(oracle.select(&query(40_000, 0)).state, 0);
        assert_eq!(oracle.select(&query(9_000_000, 0)).state, 1);
        assert!(oracle.select(&query(9_000_000, 0)).stop_tick);
    }

    proptest! {
        #[test]
        fn no_allowed_state_takes_less_energy(
            list in any_state_table(),
            draws in prop::collection::vec(0_u64..3_000_000, MAX_STATES),
            idle in 0_u64..5_000_000,
            limit in 0_i64..2_000_000,
        ) {
            let states = draws.iter().zip(list.iter()).map(|(&uw, state)| StatePower {
                asleep: Microwatts(uw),
                transition: Microwatts(3_000_000),
                entry: Nanoseconds(0),
                exit: state.exit_latency,
            });
            let power = IdlePower { states: states.collect() };
            let costs: Vec<u128> = draws
                .iter()
                .zip(list.iter())
                .map(|(&uw, state)| {
                    u128::from(uw) * u128::from(idle) + 3_000_000 * u128::from(state.exit_latency.0)
                })
                .collect();
            let mut oracle =
                Oracle::new_with_power(&list, OracleGoal::Energy, TickRate::HZ_1000, &power);
            let chosen = oracle.select(&query(idle, limit)).state;
            for i in 0..list.len() {
                if !list[i].disabled && list[i].exit_latency.0 as i64 <= limit {
                    prop_assert!(costs[chosen] <= costs[i]);
                }
            }
        }

        #[test]
        fn the_latency_goal_leaves_no_quicker_state(list in any_state_table(), idle in any::<u64>()) {
            let mut oracle = Oracle::new(&list, OracleGoal::Latency, TickRate::HZ_250);
            let chosen = oracle.select(&query(idle, 0)).state;
            for state in list.iter().filter(|s| !s.disabled) {
                prop_assert!(list[chosen].exit_latency <= state.exit_latency);
            }
        }
    }
}
