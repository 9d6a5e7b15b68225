//! `amd-pstate`: AMD's cpufreq driver, in all modes.

use super::key::{Fallback, Form, Key, KeyInfo, choice_key, switch_key};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::FreqPolicy;
use crate::freq::amd_pstate::{AmdGovernor, AmdMode, AmdPstateSettings};
use crate::freq::epp::Epp;

/// Energy-performance preferences that have names in AMD's driver (`epp_values`,
/// `drivers/cpufreq/amd-pstate.c`, Linux 7.3).
const NAMED: &[(&str, u8)] = &[
    ("performance", 0x00),
    ("balance_performance", 0x80),
    ("balance_power", 0xBF),
    ("power", 0xFF),
];

/// First kernel with all of amd-pstate's modes: Linux 6.3 brought active mode, 6.4 guided mode.
const FIRST_WITH_MODES: (u16, u16, u16) = (6, 4, 0);

static MODE: Key<AmdMode> = choice_key(
    "mode",
    &[
        ("active", AmdMode::Active),
        ("passive", AmdMode::Passive),
        ("guided", AmdMode::Guided),
    ],
    "active",
    "guided",
    "who chooses the frequency: the processor, the governor, or the processor above what the governor asks for",
);
static GOVERNOR: Key<AmdGovernor> = Key {
    info: KeyInfo {
        name: "governor",
        meaning: "who chooses within the limits; performance in active mode: from the nominal frequency up",
        unit: "",
        fallback: Fallback::Derived("powersave in active mode, else schedutil"),
        example: "performance",
    },
    words: &[
        ("schedutil", AmdGovernor::Schedutil),
        ("performance", AmdGovernor::Performance),
        ("powersave", AmdGovernor::Powersave),
    ],
    form: Form::WordsOnly,
};
static EPP: Key<u8> = Key {
    info: KeyInfo {
        name: "epp",
        meaning: "energy-performance preference of active mode, 0 (performance) to 255 (power)",
        unit: "",
        fallback: Fallback::Value("balance_performance"),
        example: "power",
    },
    words: NAMED,
    form: Form::UpTo(u8::MAX as u64, |n| n as u8),
};
static BOOST: Key<bool> = switch_key(
    "boost",
    "on",
    "whether frequencies above the nominal one may be used",
);

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "amd-pstate",
    kind: Kind::Frequency,
    versioned: true,
    summary: "AMD's driver: the processor's own choice, or schedutil on a continuous scale",
    source: "drivers/cpufreq/amd-pstate.c",
    on: SIM_AND_MACHINE,
    keys: &[&MODE, &GOVERNOR, &EPP, &BOOST],
    overlaps: &[("epp", Kind::Epp), ("boost", Kind::Turbo)],
    build: |given| {
        let mode = given.value_or_default(&MODE)?;
        if mode != AmdMode::Passive && given.version_or_bare().release() < FIRST_WITH_MODES {
            return Err(
                given.keys_error("this kernel's driver has passive mode only: mode=passive")
            );
        }
        let governor = match (mode, given.given_value(&GOVERNOR)?) {
            (AmdMode::Active, None) => AmdGovernor::Powersave,
            (_, None) => AmdGovernor::Schedutil,
            (AmdMode::Active, Some(AmdGovernor::Schedutil)) => {
                return Err(given.keys_error(
                    "active mode has the governors powersave and performance; schedutil goes with mode=passive or mode=guided",
                ));
            }
            (_, Some(governor)) => governor,
        };
        if given.given_value(&EPP)?.is_some()
            && (mode, governor) != (AmdMode::Active, AmdGovernor::Powersave)
        {
            return Err(given.keys_error(
                "a preference goes with mode=active and governor=powersave; the driver writes its own otherwise",
            ));
        }
        Ok(Policy::Frequency(FreqPolicy::AmdPstate(
            AmdPstateSettings {
                mode,
                governor,
                epp: given.value_or_default(&EPP)?,
                boost: given.value_or_default(&BOOST)?,
                kernel: given.version_or_bare(),
            },
        )))
    },
};

/// Number of an energy-performance preference in AMD's driver, whose names may stand for other numbers than elsewhere; `None` for the
/// firmware's own.
pub fn amd_epp_number(epp: Epp) -> Option<u8> {
    let Epp::Named(name, elsewhere) = epp else {
        return epp.number();
    };
    let mut named = NAMED.iter();
    let own = named.find(|(known, _)| *known == name);
    Some(own.map_or(elsewhere, |(_, number)| *number))
}
