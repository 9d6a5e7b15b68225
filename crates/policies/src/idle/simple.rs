//! The two extremes: always the shallowest state, always the deepest.

use wakepath_hardware::IdleStates;

use super::table::StateTable;
use super::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};

/// Governor that always takes the shallowest enabled state (state 0 if none is), tick left alone.
/// It is what a CPU does under `cpuidle.off`-like settings, and the least latency a machine can
/// have.
#[derive(Clone, Debug)]
pub struct Shallowest {
    pub(in crate::idle) table: StateTable,
}

impl Shallowest {
    /// The `shallowest` governor for a table of idle states.
    pub fn new(states: &IdleStates) -> Self {
        Self {
            table: StateTable::new(states),
        }
    }
}

impl IdleGovernor for Shallowest {
    #[inline]
    fn select(&mut self, _query: &IdleQuery) -> IdleDecision {
        IdleDecision {
            state: self.table.enabled_states().shallowest().unwrap_or(0),
            stop_tick: false,
        }
    }

    #[inline]
    fn reflect(&mut self, _entered: usize, _outcome: &IdleOutcome) {}
}

/// Governor that always takes the deepest enabled state within the latency request; the shallowest
/// enabled one if none is (state 0 if none is enabled). The tick is stopped unless that state
/// polls.
#[derive(Clone, Debug)]
pub struct Deepest {
    pub(in crate::idle) table: StateTable,
}

impl Deepest {
    /// The `deepest` governor for a table of idle states.
    pub fn new(states: &IdleStates) -> Self {
        Self {
            table: StateTable::new(states),
        }
    }
}

impl IdleGovernor for Deepest {
    #[inline]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let enabled = self.table.enabled_states();
        let state = enabled
            .without(self.table.enabled_slower_than(query.latency_request))
            .deepest()
            .or(enabled.shallowest())
            .unwrap_or(0);
        IdleDecision {
            state,
            stop_tick: !self.table.is_polling(state),
        }
    }

    #[inline]
    fn reflect(&mut self, _entered: usize, _outcome: &IdleOutcome) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::any_state_table;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_the_two_ends_of_what_is_allowed(list in any_state_table(), limit in 0_i64..2_000_000) {
            let query = IdleQuery { latency_request: limit, ..IdleQuery::default() };
            let shallow = Shallowest::new(&list).select(&query);
            let deep = Deepest::new(&list).select(&query);
            let allowed = |i: &usize| !list[*i].disabled && list[*i].exit_latency.0 as i64 <= limit;
            prop_assert!(!shallow.stop_tick);
            prop_assert_eq!(
                shallow.state,
                list.iter().position(|s| !s.disabled).unwrap_or(0)
            );
            prop_assert_eq!(
                deep.state,
                (0..list.len()).rfind(allowed).unwrap_or(shallow.state)
            );
            prop_assert_eq!(deep.stop_tick, !list[deep.state].polling);
        }
    }
}
