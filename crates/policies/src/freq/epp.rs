//! The energy-performance preference (EPP) of processors that choose their own frequency.

use std::fmt;

use serde::Serialize;
use wakepath_units::quantity;

/// Energy-performance preferences that have names (`epp_values`, `drivers/cpufreq/intel_pstate.c`,
/// Linux 6.12).
pub(crate) const NAMED: &[(&str, u8)] = &[
    ("performance", 0x00),
    ("balance_performance", 0x80),
    ("balance_power", 0xC0),
    ("power", 0xFF),
];

/// An energy-performance preference, as sysfs takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Epp {
    /// Preference known to the kernel by name, with the usual number.
    Named(&'static str, u8),
    /// Preference set by the firmware at boot.
    Firmware,
    /// Preference as a number: 0 is performance, 255 is power saving.
    Number(u8),
}

impl Epp {
    /// Reads a preference as sysfs shows it. `None` if the kernel has no such preference.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((name, number)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Some(Self::Named(name, *number));
        }
        if text == "default" {
            return Some(Self::Firmware);
        }
        let number = quantity::parse_whole_number(text)?;
        u8::try_from(number).ok().map(Self::Number)
    }

    /// Number of the preference, 0 to 255; `None` for the firmware's.
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

/// Explains why an energy-performance preference is refused while the governor `performance` is in
/// force. The advice names `alternative_policy`, the policy that scales with the load.
pub fn explain_refusal_under_performance(alternative_policy: &str) -> String {
    format!(
        "under the governor performance the kernel refuses every preference but performance (EBUSY); add {alternative_policy} to the set"
    )
}

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
