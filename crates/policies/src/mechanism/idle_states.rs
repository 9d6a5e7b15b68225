//! `idle-states`: switches idle states off, as writing 1 to their `disable` files does.

use serde::Serialize;
use wakepath_hardware::IdleStates;
use wakepath_units::{Nanoseconds, quantity};

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

/// Idle states that are switched off.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct IdleStatesLimit {
    /// States above the ceiling are off, others on, except states that the driver disables by default. The shallowest
    /// state always stays on.
    pub ceiling: Option<StateLimit>,
    /// States that are off, by the driver's name.
    pub disable: Vec<String>,
}

/// An upper bound on idle states.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum StateLimit {
    /// All states are allowed.
    None,
    /// States with at most this declared exit latency.
    Latency(Nanoseconds),
    /// A state by the driver's name, and all shallower states.
    State(String),
}

/// No idle state on the machine has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no idle state is called `{name}` here; there are {}", known.join(", "))]
pub struct NoSuchState {
    /// The name.
    pub name: String,
    /// Existing names, shallowest state first.
    pub known: Vec<String>,
}

/// The index of a state by name, ignoring case.
///
/// # Errors
/// No state has the name.
pub fn state_index(states: &IdleStates, name: &str) -> Result<usize, NoSuchState> {
    let index = states
        .iter()
        .position(|state| state.name.eq_ignore_ascii_case(name));
    index.ok_or_else(|| NoSuchState {
        name: name.to_owned(),
        known: states.iter().map(|state| state.name.clone()).collect(),
    })
}

impl IdleStatesLimit {
    /// Indices of states switched off, ascending. The shallowest enabled state stays on, unless named.
    ///
    /// # Errors
    /// The machine has no state of a name.
    pub fn switched_off(&self, states: &IdleStates) -> Result<Vec<usize>, NoSuchState> {
        let named = self.disable.iter().map(|name| state_index(states, name));
        let mut off = named.collect::<Result<Vec<usize>, NoSuchState>>()?;
        let limit = match &self.ceiling {
            None | Some(StateLimit::None) => Nanoseconds(u64::MAX),
            Some(StateLimit::Latency(limit)) => *limit,
            Some(StateLimit::State(name)) => states[state_index(states, name)?].exit_latency,
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

/// The name of an idle state: a letter, then letters, digits, blanks, `-`, `_` and `.`.
pub(super) fn state_name(text: &str) -> Option<String> {
    let name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c));
    name.then(|| text.to_owned())
}

/// A latency in whole microseconds, the kernel's resolution.
pub(super) fn latency(text: &str) -> Option<Nanoseconds> {
    quantity::time(text).filter(|time| time.0 % 1_000 == 0)
}

static CEILING: Key<StateLimit> = Key {
    info: KeyInfo {
        name: "ceiling",
        meaning: "the deepest state that stays on: by exit latency or by name; none: all",
        unit: "",
        fallback: Fallback::Derived("unchanged"),
        example: "20us",
    },
    words: &[("none", StateLimit::None)],
    form: Form::Text("a latency such as 20us, or a state such as C1E", |text| {
        let by_latency = latency(text).map(StateLimit::Latency);
        by_latency.or_else(|| state_name(text).map(StateLimit::State))
    }),
};
static DISABLE: Key<Vec<String>> = Key {
    info: KeyInfo {
        name: "disable",
        meaning: "states that are switched off",
        unit: "",
        fallback: Fallback::Derived("unchanged"),
        example: "C6",
    },
    words: &[],
    form: Form::List("states such as C6 or C3,C6", |text| {
        text.split(',')
            .map(|name| state_name(name.trim()))
            .collect()
    }),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "idle-states",
    kind: Kind::IdleStates,
    versioned: false,
    summary: "switches idle states off",
    source: "drivers/cpuidle/sysfs.c",
    on: SIM_AND_MACHINE,
    keys: &[&CEILING, &DISABLE],
    overlaps: &[],
    build: |given| {
        let limit = IdleStatesLimit {
            ceiling: given.given(&CEILING)?,
            disable: given.given(&DISABLE)?.unwrap_or_default(),
        };
        if limit.ceiling.is_none() && limit.disable.is_empty() {
            return Err(
                given.error("ceiling or disable is missing, as in idle-states[ceiling=20us]")
            );
        }
        Ok(Policy::IdleStates(limit))
    },
};
