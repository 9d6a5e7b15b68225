//! `intel_pstate-hwp`: the driver in active mode with HWP.

use super::key::{Fallback, Form, Key, KeyInfo, switch_key};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::FreqPolicy;
use crate::freq::epp::NAMED;

static DYNAMIC_BOOST: Key<bool> = switch_key(
    "hwp_dynamic_boost",
    "off",
    "whether wake-ups from I/O wait raise the minimum performance",
);
static EPP: Key<u8> = Key {
    info: KeyInfo {
        name: "epp",
        meaning: "energy-performance preference, 0 (performance) to 255 (power)",
        unit: "",
        fallback: Fallback::Value("balance_performance"),
        example: "power",
    },
    words: NAMED,
    form: Form::UpTo(u8::MAX as u64, |n| n as u8),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "intel_pstate-hwp",
    kind: Kind::Frequency,
    versioned: false,
    summary: "intel_pstate in active mode with HWP, powersave algorithm",
    source: "drivers/cpufreq/intel_pstate.c",
    on: SIM_AND_MACHINE,
    keys: &[&DYNAMIC_BOOST, &EPP],
    overlaps: &[("hwp_dynamic_boost", Kind::HwpBoost), ("epp", Kind::Epp)],
    build: |given| {
        Ok(Policy::Frequency(FreqPolicy::IntelPstateHwp {
            dynamic_boost: given.value_or_default(&DYNAMIC_BOOST)?,
            epp: given.value_or_default(&EPP)?,
        }))
    },
};
