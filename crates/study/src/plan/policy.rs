//! Planned policies: policy sets with their names.

use std::collections::BTreeMap;
use std::path::Path;

use wakepath_governors as governors;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Place;
use wakepath_results::RunOrigin;

use super::machine::PlannedMachine;
use crate::file::{NamedSet, StudyError, StudyText};

/// A policy that a study runs.
#[derive(Clone, Debug)]
pub struct PlannedPolicy {
    /// Name of the policy in the results.
    pub name: String,
    /// Policies that hold together; everything unnamed stays as on the machine.
    pub set: PolicySet,
    /// Settings for the measured machine by name, beyond any policy.
    pub settings: BTreeMap<String, String>,
}

impl PlannedPolicy {
    pub(super) fn new(
        named: NamedSet<'_>,
        source: StudyText<'_>,
        folder: &Path,
        target: RunOrigin,
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        let mut settings = BTreeMap::new();
        for (key, value) in named.settings.into_iter().flatten() {
            if target != RunOrigin::Live {
                let message = format!(
                    "`{key}` is a setting of a real machine (--on live); simulations and replays have the policies of `set`"
                );
                return Err(source.error_at_value(value, message));
            }
            let text = match value.get_ref() {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => u8::from(*on).to_string(),
                _ => {
                    let message = "a setting is a text, a whole number, true or false";
                    return Err(source.error_at_value(value, message));
                }
            };
            settings.insert(key.clone(), text);
        }
        if target == RunOrigin::Replay
            && let Some(message) = reason_against_replay(&named.set)
        {
            return Err(source.policy_error(named.at.as_ref(), &named.name, message));
        }
        let set = governors::load_governor(named.set, folder, allow_programs)
            .map_err(|e| source.policy_error(named.at.as_ref(), &named.name, e.to_string()))?;
        Ok(Self {
            // Results must tell two versions of a governor's file apart.
            name: match set.own_governor() {
                Some(_) if named.is_set => set.to_string(),
                _ => named.name,
            },
            set,
            settings,
        })
    }

    /// A policy set with a name that has the versions from a machine's kernel.
    pub(super) fn for_machine(set: PolicySet, machine: &Machine) -> Self {
        Self {
            name: with_kernel_versions(&set, machine).to_string(),
            set,
            settings: BTreeMap::new(),
        }
    }

    /// Describes the policy's changes for the results. Bare names get the version in force, unless machines differ, or
    /// before a measurement.
    pub(super) fn describe(
        &self,
        machines: &[PlannedMachine],
        target: RunOrigin,
    ) -> wakepath_results::PolicyInfo {
        let mut settings = self.settings.clone();
        if !self.set.is_empty() {
            let mut on_each = self.sets_on_machines(machines);
            let policy = match (target, on_each.next()) {
                (RunOrigin::Live, _) => self.set.text_as_written(),
                (_, Some(first)) if on_each.all(|other| other == first) => first.to_string(),
                (_, Some(_)) => self.set.text_as_written(),
                (_, None) => self.set.to_string(),
            };
            settings.insert("policy".to_owned(), policy);
        }
        wakepath_results::PolicyInfo {
            name: self.name.clone(),
            settings,
            notes: match target {
                RunOrigin::Sim => self.assumptions_of_simulation_on(machines),
                _ => Vec::new(),
            },
        }
    }

    /// What a simulation of the set on these machines assumes or leaves out, each remark once. A set that does not fit a
    /// machine is refused elsewhere and has no remarks.
    fn assumptions_of_simulation_on(&self, machines: &[PlannedMachine]) -> Vec<String> {
        let models = machines.iter().filter_map(|machine| machine.model.as_ref());
        let mut notes: Vec<String> = Vec::new();
        for note in models
            .filter_map(|model| wakepath_sim::notes_on_policies(model, &self.set).ok())
            .flatten()
        {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// Whether two policies make equal changes on these machines.
    pub(super) fn is_equal_on(&self, machines: &[PlannedMachine], other: &Self) -> bool {
        let modelled = machines.iter().any(|machine| machine.model.is_some());
        let same_sets = if modelled {
            self.sets_on_machines(machines)
                .eq(other.sets_on_machines(machines))
        } else {
            self.set == other.set
        };
        same_sets && self.settings == other.settings
    }

    /// The policy set on each modelled machine, with its kernel's versions.
    fn sets_on_machines(&self, machines: &[PlannedMachine]) -> impl Iterator<Item = PolicySet> {
        let models = machines.iter().filter_map(|machine| machine.model.as_ref());
        models.map(|model| with_kernel_versions(&self.set, model))
    }
}

/// A policy set with versions from a machine's kernel.
fn with_kernel_versions(set: &PolicySet, machine: &Machine) -> PolicySet {
    match machine.kernel {
        Some(kernel) => set.clone().with_kernel_for_bare_names(kernel),
        None => set.clone(),
    }
}

/// Why a policy set cannot be replayed on any recording; `None` if nothing speaks against it.
pub fn reason_against_replay(set: &PolicySet) -> Option<String> {
    if let Some(profile) = set.profile() {
        return Some(format!(
            "`{profile}` sets frequencies, which cannot act on a recording; a replay takes an idle governor, \
             cpu-latency and psd"
        ));
    }
    let other = set.policies().iter().find(|policy| {
        let on = policy.mechanism().on;
        !on.contains(&Place::Replay)
    })?;
    Some(format!(
        "`{other}` does not act on a recording, whose load is as it was; a replay takes an idle governor, cpu-latency \
         and psd"
    ))
}
