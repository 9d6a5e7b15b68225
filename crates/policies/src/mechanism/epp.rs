//! `epp`: energy-performance preference for processors that choose their own frequency.

use std::fmt;

use serde::Serialize;

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

/// The preferences that have names (`epp_values`, `drivers/cpufreq/intel_pstate.c`, Linux 6.12).
pub(super) const NAMED: &[(&str, u8)] = &[
    ("performance", 0x00),
    ("balance_performance", 0x80),
    ("balance_power", 0xC0),
    ("power", 0xFF),
];

/// An energy-performance preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Epp {
    /// A preference known to the kernel by name, with the usual number.
    Named(&'static str, u8),
    /// Preference set by the firmware at boot.
    Firmware,
    /// A number: 0 is performance, 255 is power saving.
    Number(u8),
}

impl Epp {
    /// The preference of a text as sysfs shows it. `None` if the kernel has no such preference.
    pub fn parse(text: &str) -> Option<Self> {
        VALUE.parse(text)
    }

    /// Number of the preference; `None` for the firmware's.
    pub const fn number(self) -> Option<u8> {
        match self {
            Self::Named(_, number) | Self::Number(number) => Some(number),
            Self::Firmware => None,
        }
    }
}

impl fmt::Display for Epp {
    /// Notation in sysfs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name, _) => f.write_str(name),
            Self::Firmware => f.write_str("default"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// Why a preference is refused while the governor `performance` is in force, and what to do, where `instead` is the policy that
/// scales with the load.
pub fn busy_under_performance(instead: &str) -> String {
    format!(
        "under the governor performance the kernel refuses every preference but performance (EBUSY); add {instead} to the set"
    )
}

const fn named(index: usize) -> (&'static str, Epp) {
    let (name, number) = NAMED[index];
    (name, Epp::Named(name, number))
}

static VALUE: Key<Epp> = Key {
    info: KeyInfo {
        name: "value",
        meaning: "the preference: 0 performance, 255 power saving",
        unit: "",
        fallback: Fallback::Required,
        example: "balance_power",
    },
    words: &[
        named(0),
        named(1),
        named(2),
        named(3),
        ("default", Epp::Firmware),
    ],
    form: Form::UpTo(u8::MAX as u64, |n| Epp::Number(n as u8)),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "epp",
    kind: Kind::Epp,
    versioned: false,
    summary: "the energy-performance preference of the hardware",
    source: "energy_performance_preference of cpufreq, Documentation/admin-guide/pm/intel_pstate.rst",
    on: SIM_AND_MACHINE,
    keys: &[&VALUE],
    overlaps: &[],
    build: |given| Ok(Policy::Epp(given.get(&VALUE)?)),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_preference_is_a_word() {
        for (name, number) in NAMED {
            assert_eq!(Epp::parse(name).and_then(Epp::number), Some(*number));
        }
        assert_eq!(Epp::parse("128"), Some(Epp::Number(128)));
        assert_eq!(Epp::parse("256"), None);
    }
}
