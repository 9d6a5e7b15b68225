//! How deeply a CPU with a lease may sleep, and how its governor is asked.

use serde::Serialize;
use wakepath_hardware::IdleStates;
use wakepath_units::Nanoseconds;

use crate::idle::limit::{NoSuchState, find_state_index};
use crate::idle::{IdleDecision, IdleGovernor, IdleQuery};

/// Deepest sleep of a CPU while its lease holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ceiling {
    /// The CPU may enter only its shallowest enabled state, as in the proposed kernel patch.
    #[default]
    Shallowest,
    /// The CPU may enter no state deeper than the one with this index.
    State(usize),
    /// The CPU may enter only states with an exit latency up to this limit.
    Latency(Nanoseconds),
}

/// A lease's ceiling as users write it: a state's name means another state on another machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum LeaseCeiling {
    /// A ceiling that means the same on every machine.
    Of(Ceiling),
    /// The state with this driver's name is the deepest.
    Named(String),
    /// The ceiling is just above C1 and C1E ([`ceiling_just_above_c1`]).
    Auto,
}

/// Exit latency up to which a state counts as shallow: reviewers of the kernel asked for a ceiling
/// "just above C1/C1E", which are left within 10 us on every recorded system.
const SHALLOW: Nanoseconds = Nanoseconds(10_000);

/// The latency just above C1 and C1E: the exit latency of the deepest state that is still shallow, or of
/// the shallowest one; at least 1 us, since 0 would be polling. `exit_latencies`: the exit latencies of the states
/// that do not poll. `None` if there is no such state.
///
/// ```
/// use wakepath_policies::psd::ceiling_just_above_c1;
/// use wakepath_units::Nanoseconds;
///
/// let skylake = [2, 10, 85].map(Nanoseconds::from_micros);
/// assert_eq!(ceiling_just_above_c1(skylake.into_iter()), Some(Nanoseconds(10_000)));
/// ```
pub fn ceiling_just_above_c1(
    exit_latencies: impl Iterator<Item = Nanoseconds> + Clone,
) -> Option<Nanoseconds> {
    let shallow = exit_latencies.clone().filter(|latency| *latency <= SHALLOW);
    let ceiling = shallow.max().or_else(|| exit_latencies.min())?;
    Some(ceiling.max(Nanoseconds::from_micros(1)))
}

impl LeaseCeiling {
    /// Ceiling of a lease on a machine with these idle states.
    ///
    /// # Errors
    ///
    /// No idle state has the ceiling's name.
    pub fn resolve_for_states(&self, states: &IdleStates) -> Result<Ceiling, NoSuchState> {
        let name = match self {
            Self::Of(ceiling) => return Ok(*ceiling),
            Self::Named(name) => name,
            Self::Auto => {
                let sleeping = states.iter().filter(|state| !state.polling);
                let ceiling = ceiling_just_above_c1(sleeping.map(|state| state.exit_latency));
                return Ok(ceiling.map_or(Ceiling::Shallowest, Ceiling::Latency));
            }
        };
        find_state_index(states, name).map(Ceiling::State)
    }
}

fn shallowest_enabled_state(states: &IdleStates) -> usize {
    let shallowest = states.iter().position(|state| !state.disabled);
    shallowest.unwrap_or(0)
}

/// Deepest enabled state, up to an index, whose exit latency is within a limit; else the shallowest
/// enabled state.
fn deepest_state_within(states: &IdleStates, deepest: usize, limit: Nanoseconds) -> usize {
    (0..=deepest)
        .rfind(|index| !states[*index].disabled && states[*index].exit_latency <= limit)
        .or_else(|| (0..=deepest).find(|index| !states[*index].disabled))
        .unwrap_or(0)
}

impl Ceiling {
    /// Longest exit latency that a CPU tolerates while its lease holds.
    pub fn latency_limit(self, states: &IdleStates) -> Nanoseconds {
        match self {
            Self::Shallowest => Nanoseconds::ZERO,
            Self::State(_) => states[self.deepest_allowed_state(states)].exit_latency,
            Self::Latency(limit) => limit,
        }
    }

    /// Deepest state index that a CPU may enter while its lease holds, as far as the ceiling limits
    /// the index.
    fn deepest_allowed_state(self, states: &IdleStates) -> usize {
        let deepest = states.len() - 1;
        match self {
            Self::Shallowest => shallowest_enabled_state(states),
            // The CPU has to enter some state even if all states up to the ceiling are switched
            // off.
            Self::State(index) => index.min(deepest).max(shallowest_enabled_state(states)),
            Self::Latency(_) => deepest,
        }
    }

    /// Whether a governor chose a state that is switched off because of a ceiling that names a
    /// state: menu takes state 0 when no latency is allowed, enabled or not.
    fn drove_into_disabled_state(self, states: &IdleStates, state: usize) -> bool {
        matches!(self, Self::State(_)) && states[state].disabled
    }

    /// Asks `governor` for the state of a CPU while its lease holds.
    ///
    /// The governor sees the lowered latency request, so that its memory stays in step with what happens. An answer
    /// deeper than the ceiling is replaced by the deepest enabled state up to it. In the shallowest state the tick is
    /// left alone, so that the CPU decides anew when the lease is over.
    pub fn select_below_ceiling<G: IdleGovernor>(
        self,
        states: &IdleStates,
        governor: &mut G,
        query: &IdleQuery,
    ) -> IdleDecision {
        let limit = i64::try_from(self.latency_limit(states).0).unwrap_or(i64::MAX);
        let mut decision = governor.select(&IdleQuery {
            latency_request: query.latency_request.min(limit),
            ..*query
        });
        let deepest = self.deepest_allowed_state(states);
        if self == Self::Shallowest {
            decision = IdleDecision {
                state: deepest,
                stop_tick: false,
            };
        } else if decision.state > deepest || self.drove_into_disabled_state(states, decision.state)
        {
            let limit = Nanoseconds(query.latency_request.max(0) as u64);
            decision.state = deepest_state_within(states, deepest, limit);
            decision.stop_tick &= !states[decision.state].polling;
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::{any_governor_call, any_state_table, make_states};
    use crate::idle::{Governor, IdlePolicy, KernelVersion};
    use proptest::prelude::*;
    use wakepath_units::TickRate;

    #[test]
    fn a_request_below_the_ceiling_counts() {
        let mut list = make_states(&[(0, 0), (2_000, 20_000), (100_000, 600_000)], true)
            .as_slice()
            .to_vec();
        list[0].disabled = true;
        let list = IdleStates::new(list).unwrap();
        let policy = IdlePolicy::Menu(KernelVersion::V6_12);
        let mut governor = Governor::new(&policy, &list, TickRate::HZ_250);
        // menu takes state 0 where no latency is allowed, which is off; C6 takes too long.
        for latency_request in [0, 50_000] {
            let query = IdleQuery {
                sleep_length: 10_000_000,
                delta_tick: 3_000_000,
                latency_request,
                ..IdleQuery::default()
            };
            let decision = Ceiling::State(2).select_below_ceiling(&list, &mut governor, &query);
            assert_eq!(decision.state, 1, "{latency_request}");
        }
    }

    proptest! {
        #[test]
        fn a_ceiling_is_kept(
            list in any_state_table(),
            history in prop::collection::vec(any_governor_call(), 1..20),
            index in 0_usize..12,
        ) {
            let policy = IdlePolicy::Menu(KernelVersion::V6_12);
            for ceiling in [Ceiling::Shallowest, Ceiling::State(index)] {
                let mut governor = Governor::new(&policy, &list, TickRate::HZ_250);
                for (query, outcome) in &history {
                    let decision = ceiling.select_below_ceiling(&list, &mut governor, query);
                    let first = list.iter().position(|s| !s.disabled).unwrap_or(0);
                    if ceiling == Ceiling::Shallowest {
                        prop_assert_eq!(decision.state, first);
                    } else {
                        prop_assert!(decision.state <= index.max(first));
                        let any = list.iter().any(|s| !s.disabled);
                        prop_assert!(!any || !list[decision.state].disabled);
                    }
                    governor.reflect(decision.state, outcome);
                }
            }
        }
    }
}
