//! `idle-states`: switches idle states off, as writing 1 to their `disable` files does.

use wakepath_units::{Nanoseconds, quantity};

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::idle::limit::{IdleStatesLimit, StateLimit};

/// Accepts the name of an idle state: a letter, then letters, digits, blanks, `-`, `_` and `.`;
/// `None` for other texts.
pub(super) fn parse_state_name(text: &str) -> Option<String> {
    let name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c));
    name.then(|| text.to_owned())
}

/// Parses an exit latency in whole microseconds, the kernel's resolution.
pub(super) fn parse_whole_microseconds(text: &str) -> Option<Nanoseconds> {
    quantity::parse_time(text).filter(|time| time.0 % 1_000 == 0)
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
        let by_latency = parse_whole_microseconds(text).map(StateLimit::Latency);
        by_latency.or_else(|| parse_state_name(text).map(StateLimit::State))
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
            .map(|name| parse_state_name(name.trim()))
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
            ceiling: given.given_value(&CEILING)?,
            disable: given.given_value(&DISABLE)?.unwrap_or_default(),
        };
        if limit.ceiling.is_none() && limit.disable.is_empty() {
            return Err(
                given.keys_error("ceiling or disable is missing, as in idle-states[ceiling=20us]")
            );
        }
        Ok(Policy::IdleStates(limit))
    },
};
