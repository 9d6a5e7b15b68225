//! `powersave`: the cpufreq governor.

use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::FreqPolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "powersave",
    kind: Kind::Frequency,
    versioned: false,
    summary: "always the lowest frequency",
    source: "drivers/cpufreq/cpufreq_powersave.c",
    on: SIM_AND_MACHINE,
    keys: &[],
    overlaps: &[],
    build: |_| Ok(Policy::Frequency(FreqPolicy::Powersave)),
};
