//! `c1-demotion`: whether the firmware may answer requests for deep idle states with C1.

use super::key::{Key, required_switch_key};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

static VALUE: Key<bool> = required_switch_key(
    "value",
    "off",
    "whether CPUs that wake up often are kept in C1",
);

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "c1-demotion",
    kind: Kind::C1Demotion,
    versioned: false,
    summary: "Intel's demotion of deep idle states to C1 while wake-ups are frequent",
    source: "intel_c1_demotion, drivers/idle/intel_idle.c, Linux 6.16",
    on: SIM_AND_MACHINE,
    keys: &[&VALUE],
    overlaps: &[],
    build: |given| Ok(Policy::C1Demotion(given.value_or_default(&VALUE)?)),
};
