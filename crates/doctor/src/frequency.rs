//! Finds an HWP boost that is off although it would help.

use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::mechanism::Kind;

use crate::case::Case;
use crate::finding::Finding;
use crate::model::READS;

/// Finds that HWP dynamic boost is off, if the simulation is faster with it.
pub(crate) fn find_missing_boost(case: &mut Case<'_>) -> Option<Finding> {
    let path = "sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost";
    if case.system.root().read_text_if_readable(path)? != "0" {
        return None;
    }
    let now = case.model.now.policy_of_kind(Kind::Frequency)?.clone();
    // Under the governor performance there is nothing to raise.
    let FreqPolicy::IntelPstateHwp {
        dynamic_boost: false,
        ..
    } = now.as_frequency_policy().ok()?
    else {
        return None;
    };
    let set = "hwp-boost[value=on]".parse().ok()?;
    let priced = case.price_policy_set("boost-off", set, READS, "boost on")?;
    if priced.difference.us_per_io <= 0.0 {
        return None;
    }
    Some(
        Finding::new(
            "boost-off",
            "HWP dynamic boost is off: after waiting for I/O a CPU starts at a low frequency",
        )
        .with_evidence(format!("/{path} is 0; {now}"))
        .fixed_by_priced_set(case, priced),
    )
}
