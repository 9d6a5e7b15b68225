//! `epp`: energy-performance preference for processors that choose their own frequency.

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::epp::{Epp, NAMED};

const fn named_preference(index: usize) -> (&'static str, Epp) {
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
        named_preference(0),
        named_preference(1),
        named_preference(2),
        named_preference(3),
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
    build: |given| Ok(Policy::Epp(given.value_or_default(&VALUE)?)),
};
