//! `turbo`: whether CPUs may run above their base clock.

use super::key::{Key, required_switch_key};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

static VALUE: Key<bool> = required_switch_key(
    "value",
    "off",
    "whether clocks above the base clock may be used",
);

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
