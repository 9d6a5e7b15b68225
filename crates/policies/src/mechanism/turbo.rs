//! `turbo`: whether CPUs may run above their base clock.

use super::key::{Fallback, Form, Key, KeyInfo, SWITCH};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

static VALUE: Key<bool> = Key {
    info: KeyInfo {
        name: "value",
        meaning: "whether clocks above the base clock may be used",
        unit: "",
        fallback: Fallback::Required,
        example: "off",
    },
    words: SWITCH,
    form: Form::WordsOnly,
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "turbo",
    kind: Kind::Turbo,
    versioned: false,
    summary: "whether clocks above the base clock may be used",
    source: "no_turbo in drivers/cpufreq/intel_pstate.c; boost in drivers/cpufreq/cpufreq.c",
    on: SIM_AND_MACHINE,
    keys: &[&VALUE],
    overlaps: &[],
    build: |given| Ok(Policy::Turbo(given.value_or_default(&VALUE)?)),
};
