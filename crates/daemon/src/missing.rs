//! Parts of a configuration that are not in force on this machine.

use std::collections::BTreeSet;

use wakepath_settings::daemon_config::{BoostMode, Config};

use crate::error::DaemonError;

/// Requested policies that this machine does not support or only in part, with reasons.
#[derive(Clone, Default)]
pub(crate) struct MissingPolicies {
    /// Why policies, or parts of them, are not in force, for people.
    pub(crate) reasons: Vec<String>,
    /// Reasons that concern policies which are requested only where useful: their absence is no fault.
    optional: Vec<String>,
    /// Policies of which at least a part is not in force: `psd`, `boost`, `drives`, `guard`, `latency`.
    policies: BTreeSet<&'static str>,
}

impl MissingPolicies {
    /// Adds a reason why a policy, or a part of it, is off.
    pub(crate) fn add_missing(&mut self, policy: &'static str, why: String) {
        self.policies.insert(policy);
        self.reasons.push(why);
    }

    /// Adds a reason why a policy is off that is requested only where useful.
    pub(crate) fn add_missing_optional(&mut self, policy: &'static str, why: String) {
        self.optional.push(why.clone());
        self.add_missing(policy, why);
    }

    /// Refuses a configuration of which more is missing than of its predecessor.
    ///
    /// # Errors
    /// [`DaemonError::Partly`] with the reasons that are new.
    pub(crate) fn check_misses_no_more_than(&self, predecessor: &Self) -> Result<(), DaemonError> {
        let new: Vec<&str> = self
            .reasons
            .iter()
            .filter(|why| !predecessor.reasons.contains(why) && !self.optional.contains(why))
            .map(String::as_str)
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        Err(DaemonError::Partly(new.join("; ")))
    }

    /// Policies that a configuration asks for, and whether each is in force as a whole.
    pub(crate) fn requested_policies_and_if_in_force(
        &self,
        config: &Config,
    ) -> Vec<(&'static str, bool)> {
        let requests = [
            ("psd", config.policy.requested_lease_settings().is_some()),
            ("boost", config.boost.mode != BoostMode::Off),
            ("drives", !config.drive.is_empty()),
            ("guard", !config.guard.keep.is_empty()),
            ("latency", config.metrics.latency),
        ];
        requests
            .into_iter()
            .filter(|(_, is_requested)| *is_requested)
            .map(|(policy, _)| (policy, !self.policies.contains(policy)))
            .collect()
    }
}
