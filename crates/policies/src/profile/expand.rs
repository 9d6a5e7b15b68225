//! Expansion of another tool's profile to policies on a machine.

use super::declaration::Profile;
use crate::spec::{PolicySet, PolicySpec, SpecError};

/// A policy set whose profile was replaced by policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The set.
    pub set: PolicySet,
    /// Notes on settings of the profile that the set lacks.
    pub notes: Vec<String>,
}

impl Profile {
    /// Alternative policies for each setting of the profile, best first.
    pub fn alternatives_per_setting(&self) -> impl Iterator<Item = Vec<PolicySpec>> {
        self.policies
            .iter()
            .map(|names| names.iter().flat_map(|name| name.parse()).collect())
    }
}

impl PolicySet {
    /// Replaces the set's profile by policies for a machine. `machine_has` tells whether the machine has a
    /// policy, given the set so far. Profile mechanisms also found in `machine_policies`, the machine's
    /// policies, keep the keys that the profile leaves out.
    ///
    /// # Errors
    /// Two policies contradict each other; impossible with [`PROFILES`](super::PROFILES).
    pub fn expand_profile(
        &self,
        machine_policies: &Self,
        machine_has: impl Fn(&PolicySpec, &Self) -> bool,
    ) -> Result<Expanded, SpecError> {
        let Some(profile) = self.profile() else {
            return Ok(Expanded {
                set: self.clone(),
                notes: Vec::new(),
            });
        };
        let mut set = self.without_profile();
        let mut notes: Vec<String> = profile.uncovered_settings_note().into_iter().collect();
        for choices in profile.alternatives_per_setting() {
            if choices.iter().any(|policy| set.decides_same_as(policy)) {
                continue;
            }
            if let Some(policy) = choices.iter().find(|policy| machine_has(policy, &set)) {
                set = set.with_policy(policy.clone())?;
            } else {
                let names: Vec<String> = choices.iter().map(ToString::to_string).collect();
                notes.push(format!(
                    "{profile}: {} does not apply to this machine and is left out",
                    names.join(" or ")
                ));
            }
        }
        Ok(Expanded {
            set: set.inherit_keys_from(machine_policies, self)?,
            notes,
        })
    }

    /// Copies the set; each policy whose kind is missing in `given_set` inherits keys from the same kind
    /// of policy in `machine_policies`.
    fn inherit_keys_from(
        &self,
        machine_policies: &Self,
        given_set: &Self,
    ) -> Result<Self, SpecError> {
        let mut kept = self.clone();
        for policy in self.policies() {
            if let Some(own) = machine_policies.policy_of_kind(policy.kind())
                && !given_set.decides_same_as(policy)
            {
                let left_out = self.keys_set_elsewhere(policy);
                kept = kept.with_policy(policy.fill_gaps_from(own, &left_out))?;
            }
        }
        Ok(kept)
    }
}
