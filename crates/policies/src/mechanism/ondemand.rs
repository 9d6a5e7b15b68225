//! `ondemand`: the cpufreq governor.

use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::FreqPolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "ondemand",
    kind: Kind::Frequency,
    versioned: false,
    summary: "the share of busy time, sampled",
    source: "drivers/cpufreq/cpufreq_ondemand.c",
    on: SIM_AND_MACHINE,
    keys: &[],
    overlaps: &[],
    build: |_| Ok(Policy::Frequency(FreqPolicy::Ondemand)),
};
