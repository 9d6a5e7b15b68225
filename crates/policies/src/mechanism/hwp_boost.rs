//! `hwp-boost`: HWP dynamic boost, whatever the frequency policy.

use super::key::{Key, required_switch_key};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

static VALUE: Key<bool> = required_switch_key(
    "value",
    "on",
    "whether wake-ups from I/O wait raise the minimum performance",
);

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
