//! What a profile of another tool means on this machine.

use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::amd_pstate::AmdMode;
use wakepath_policies::mechanism::{Place, Policy};
use wakepath_policies::profile::Expanded;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::System;

use super::cpufreq_file;
use crate::SettingsError;

/// The set with the policies of its profile that this machine has.
pub(super) fn expanded(system: &System, set: &PolicySet) -> Result<Expanded, SettingsError> {
    let driver = cpufreq_file(system, "scaling_driver");
    let governors = cpufreq_file(system, "scaling_available_governors").unwrap_or_default();
    let offers = |name: &str| governors.split_whitespace().any(|offered| offered == name);
    let epp = cpufreq_file(system, "energy_performance_preference").is_some();
    let intel = driver.as_deref() == Some("intel_pstate");
    // These call the algorithm powersave that scales with the load.
    let active = intel || driver.as_deref() == Some(super::ACTIVE_AMD_DRIVER);
    let has = |policy: &PolicySpec, _: &PolicySet| match policy.policy() {
        Policy::Frequency(FreqPolicy::IntelPstateHwp { .. }) => intel && epp,
        Policy::Frequency(FreqPolicy::IntelPstate { .. }) => intel && !epp,
        Policy::Frequency(FreqPolicy::AmdPstate(of)) if of.mode != AmdMode::Active => false,
        Policy::Frequency(FreqPolicy::AmdPstate(_)) => {
            driver.as_deref() == Some(super::ACTIVE_AMD_DRIVER)
        }
        Policy::Frequency(FreqPolicy::Powersave) => !active && offers("powersave"),
        Policy::Frequency(_) => offers(policy.mechanism().name),
        Policy::Epp(_) => epp,
        _ => policy.mechanism().on.contains(&Place::Machine),
    };
    // What no policy sets stays on a machine by itself.
    set.expand(&PolicySet::default(), has)
        .map_err(|why| SettingsError::Policy {
            policy: set.to_string(),
            why: why.to_string(),
        })
}
