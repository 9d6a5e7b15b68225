//! `intel_pstate`: the driver in active mode without HWP.

use super::schedutil::IOWAIT_BOOST;
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::FreqPolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "intel_pstate",
    kind: Kind::Frequency,
    versioned: false,
    summary: "intel_pstate in active mode without HWP, powersave algorithm",
    source: "drivers/cpufreq/intel_pstate.c",
    on: SIM_AND_MACHINE,
    keys: &[&IOWAIT_BOOST],
    overlaps: &[],
    build: |given| {
        Ok(Policy::Frequency(FreqPolicy::IntelPstate {
            iowait_boost: given.value_or_default(&IOWAIT_BOOST)?,
        }))
    },
};
