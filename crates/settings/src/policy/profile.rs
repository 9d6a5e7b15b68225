//! Turns profiles of other tools into policies that this machine has.

use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::amd_pstate::AmdMode;
use wakepath_policies::mechanism::{Place, Policy};
use wakepath_policies::profile::Expanded;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::System;

use super::frequency::{ACTIVE_AMD_DRIVER, read_file_of_first_frequency_policy, runs_intel_hwp};
use crate::SettingsError;

/// Replaces the profile in a set by policies that this machine has.
pub(super) fn replace_profile_by_offered_policies(
    system: &System,
    set: &PolicySet,
) -> Result<Expanded, SettingsError> {
    let offers = OfferedPolicies::read(system);
    // Settings that no policy of the set names stay as they are on a machine.
    set.expand_profile(&PolicySet::default(), |policy, _| {
        offers.offers_policy(policy)
    })
    .map_err(|why| SettingsError::Policy {
        policy: set.to_string(),
        why: why.to_string(),
    })
}

/// Policies that a machine offers to a profile.
struct OfferedPolicies {
    driver: Option<String>,
    governors: Vec<String>,
    /// Whether the machine has energy-performance preferences.
    epp: bool,
    /// Whether intel_pstate leaves the clocks to the hardware.
    hwp: bool,
}

impl OfferedPolicies {
    fn read(system: &System) -> Self {
        let governors = read_file_of_first_frequency_policy(system, "scaling_available_governors")
            .unwrap_or_default();
        Self {
            driver: read_file_of_first_frequency_policy(system, "scaling_driver"),
            governors: governors.split_whitespace().map(str::to_owned).collect(),
            epp: read_file_of_first_frequency_policy(system, "energy_performance_preference")
                .is_some(),
            hwp: runs_intel_hwp(system),
        }
    }

    fn offers_governor(&self, governor_name: &str) -> bool {
        self.governors
            .iter()
            .any(|governor| governor == governor_name)
    }

    fn offers_policy(&self, policy: &PolicySpec) -> bool {
        let intel = self.driver.as_deref() == Some("intel_pstate");
        let amd = self.driver.as_deref() == Some(ACTIVE_AMD_DRIVER);
        match policy.typed_policy() {
            Policy::Frequency(FreqPolicy::IntelPstateHwp { .. }) => intel && self.hwp,
            Policy::Frequency(FreqPolicy::IntelPstate { .. }) => intel && !self.hwp,
            Policy::Frequency(FreqPolicy::AmdPstate(settings)) => {
                amd && settings.mode == AmdMode::Active
            }
            // The drivers intel_pstate and amd-pstate call the algorithm `powersave` that scales with the load.
            Policy::Frequency(FreqPolicy::Powersave) => {
                !intel && !amd && self.offers_governor("powersave")
            }
            Policy::Frequency(_) => self.offers_governor(policy.mechanism().name),
            Policy::Epp(_) => self.epp,
            _ => policy.mechanism().on.contains(&Place::Machine),
        }
    }
}
