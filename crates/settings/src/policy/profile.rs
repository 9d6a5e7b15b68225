//! Profiles of other tools on this machine.

use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::amd_pstate::AmdMode;
use wakepath_policies::mechanism::{Place, Policy};
use wakepath_policies::profile::Expanded;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::System;

use super::frequency::{ACTIVE_AMD_DRIVER, cpufreq_file};
use crate::SettingsError;

/// Replaces the profile in a set by policies that this machine has.
pub(super) fn expand_profile(system: &System, set: &PolicySet) -> Result<Expanded, SettingsError> {
    let offers = OfferedPolicies::read(system);
    // What no policy sets stays on a machine by itself.
    set.expand_profile(&PolicySet::default(), |policy, _| offers.has(policy))
        .map_err(|why| SettingsError::Policy {
            policy: set.to_string(),
            why: why.to_string(),
        })
}

/// Policies that a machine offers to a profile.
struct OfferedPolicies {
    driver: Option<String>,
    governors: Vec<String>,
    /// Whether there are energy-performance preferences.
    epp: bool,
}

impl OfferedPolicies {
    fn read(system: &System) -> Self {
        let governors = cpufreq_file(system, "scaling_available_governors").unwrap_or_default();
        Self {
            driver: cpufreq_file(system, "scaling_driver"),
            governors: governors.split_whitespace().map(str::to_owned).collect(),
            epp: cpufreq_file(system, "energy_performance_preference").is_some(),
        }
    }

    fn has_governor(&self, name: &str) -> bool {
        self.governors.iter().any(|governor| governor == name)
    }

    fn has(&self, policy: &PolicySpec) -> bool {
        let intel = self.driver.as_deref() == Some("intel_pstate");
        let amd = self.driver.as_deref() == Some(ACTIVE_AMD_DRIVER);
        match policy.typed_policy() {
            Policy::Frequency(FreqPolicy::IntelPstateHwp { .. }) => intel && self.epp,
            Policy::Frequency(FreqPolicy::IntelPstate { .. }) => intel && !self.epp,
            Policy::Frequency(FreqPolicy::AmdPstate(settings)) => {
                amd && settings.mode == AmdMode::Active
            }
            // These drivers call the algorithm powersave that scales with the load.
            Policy::Frequency(FreqPolicy::Powersave) => {
                !intel && !amd && self.has_governor("powersave")
            }
            Policy::Frequency(_) => self.has_governor(policy.mechanism().name),
            Policy::Epp(_) => self.epp,
            _ => policy.mechanism().on.contains(&Place::Machine),
        }
    }
}
