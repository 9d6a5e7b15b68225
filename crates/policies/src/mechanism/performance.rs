//! `performance`: the cpufreq governor.

use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::FreqPolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "performance",
    kind: Kind::Frequency,
    versioned: false,
    summary: "always the highest frequency",
    source: "drivers/cpufreq/cpufreq_performance.c",
    on: SIM_AND_MACHINE,
    keys: &[],
    overlaps: &[],
    build: |_| Ok(Policy::Frequency(FreqPolicy::Performance)),
};
