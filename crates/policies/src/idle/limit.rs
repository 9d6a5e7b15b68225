//! Idle states that are switched off, and states by name.

use serde::Serialize;
use wakepath_hardware::IdleStates;
use wakepath_units::Nanoseconds;

/// Idle states that a policy switches off.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct IdleStatesLimit {
    /// States above the ceiling are switched off, others on, except states that the driver disables
    /// by default. The shallowest state always stays on.
    pub ceiling: Option<StateLimit>,
    /// Driver's names of the idle states that are switched off.
    pub disable: Vec<String>,
}

/// Deepest idle state that stays on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum StateLimit {
    /// All idle states stay on.
    None,
    /// Idle states with at most this declared exit latency stay on.
    Latency(Nanoseconds),
    /// The idle state with this driver's name and all shallower states stay on.
    State(String),
}

/// Error: no idle state on the machine has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no idle state is called `{name}` here; there are {}", known.join(", "))]
pub struct NoSuchState {
    /// The name.
    pub name: String,
    /// Names of the machine's idle states, shallowest state first.
    pub known: Vec<String>,
}

/// Finds the index of an idle state by name, ignoring case.
///
/// # Errors
///
/// No idle state has the name.
pub fn find_state_index(states: &IdleStates, name: &str) -> Result<usize, NoSuchState> {
    let index = states
        .iter()
        .position(|state| state.name.eq_ignore_ascii_case(name));
    index.ok_or_else(|| NoSuchState {
        name: name.to_owned(),
        known: states.iter().map(|state| state.name.clone()).collect(),
    })
}

impl IdleStatesLimit {
    /// Indices of the idle states to switch off, ascending. The shallowest enabled state stays on,
    /// unless named.
    ///
    /// # Errors
    ///
    /// The machine lacks an idle state that the policy names.
    pub fn states_to_switch_off(&self, states: &IdleStates) -> Result<Vec<usize>, NoSuchState> {
        let named = self
            .disable
            .iter()
            .map(|name| find_state_index(states, name));
        let mut off = named.collect::<Result<Vec<usize>, NoSuchState>>()?;
        let limit = match &self.ceiling {
            None | Some(StateLimit::None) => Nanoseconds(u64::MAX),
            Some(StateLimit::Latency(limit)) => *limit,
            Some(StateLimit::State(name)) => states[find_state_index(states, name)?].exit_latency,
        };
        let on = |index: &usize| !states[*index].disabled && !off.contains(index);
        let shallowest = (0..states.len()).find(on);
        let above =
            |index: &usize| states[*index].exit_latency > limit && Some(*index) != shallowest;
        let too_deep: Vec<usize> = (0..states.len()).filter(above).collect();
        off.extend(too_deep);
        off.sort_unstable();
        off.dedup();
        Ok(off)
    }
}
