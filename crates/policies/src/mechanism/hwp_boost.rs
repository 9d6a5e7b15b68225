//! `hwp-boost`: HWP dynamic boost, whatever the frequency policy.

use super::key::{Fallback, Form, Key, KeyInfo, SWITCH};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

static VALUE: Key<bool> = Key {
    info: KeyInfo {
        name: "value",
        meaning: "whether wake-ups from I/O wait raise the minimum performance",
        unit: "",
        fallback: Fallback::Required,
        example: "on",
    },
    words: SWITCH,
    form: Form::WordsOnly,
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "hwp-boost",
    kind: Kind::HwpBoost,
    versioned: false,
    summary: "HWP dynamic boost: three steps up within a burst of wake-ups from I/O wait",
    source: "drivers/cpufreq/intel_pstate.c",
    on: SIM_AND_MACHINE,
    keys: &[&VALUE],
    overlaps: &[],
    build: |given| Ok(Policy::HwpBoost(given.value_or_default(&VALUE)?)),
};
