//! Policy sets with their names.

use std::collections::BTreeMap;
use std::path::Path;

use wakepath_governors as governors;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Place;
use wakepath_results::RunOrigin;

use super::machine::PlannedMachine;
use crate::file::{NamedSet, StudyError, StudyText};

/// A policy in a study.
#[derive(Clone, Debug)]
pub struct PlannedPolicy {
    /// Name in the results.
    pub name: String,
    /// Policies to hold together; everything unnamed stays as on the machine.
    pub set: PolicySet,
    /// Settings for a measured machine beyond any policy, by name.
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
                return Err(source.error(value, message));
            }
            let text = match value.get_ref() {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => u8::from(*on).to_string(),
                _ => {
                    let message = "a setting is a text, a whole number, true or false";
                    return Err(source.error(value, message));
                }
            };
            settings.insert(key.clone(), text);
        }
        if target == RunOrigin::Replay
            && let Some(message) = cannot_replay(&named.set)
        {
            return Err(source.policy_error(named.at.as_ref(), &named.name, message));
        }
        let set = governors::load_governor(named.set, folder, allow_programs)
            .map_err(|e| source.policy_error(named.at.as_ref(), &named.name, e.to_string()))?;
        Ok(Self {
            // Results have to tell two versions of a file apart.
            name: match set.program() {
                Some(_) if named.is_set => set.to_string(),
                _ => named.name,
            },
            set,
            settings,
        })
    }

    /// A set named by its versions on a machine.
    pub(super) fn on_machine(set: PolicySet, machine: &Machine) -> Self {
        Self {
            name: set_on(&set, machine).to_string(),
            set,
            settings: BTreeMap::new(),
        }
    }

    /// All changes, for the results. Bare names get the version in force; none if machines differ, or before a measurement.
    pub(super) fn described(
        &self,
        machines: &[PlannedMachine],
        target: RunOrigin,
    ) -> wakepath_results::PolicyInfo {
        let mut settings = self.settings.clone();
        if !self.set.is_empty() {
            let mut on_each = self.on_each(machines);
            let policy = match (target, on_each.next()) {
                (RunOrigin::Live, _) => self.set.as_written(),
                (_, Some(first)) if on_each.all(|other| other == first) => first.to_string(),
                (_, Some(_)) => self.set.as_written(),
                (_, None) => self.set.to_string(),
            };
            settings.insert("policy".to_owned(), policy);
        }
        wakepath_results::PolicyInfo {
            name: self.name.clone(),
            settings,
            notes: match target {
                RunOrigin::Sim => self.notes_for(machines),
                _ => Vec::new(),
            },
        }
    }

    /// What a simulation of the set on these machines assumes or leaves out, each remark once. A set that does not fit a
    /// machine is refused elsewhere and has no remarks.
    fn notes_for(&self, machines: &[PlannedMachine]) -> Vec<String> {
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

    /// Whether both policies make equal changes on these machines.
    pub(super) fn is_same_on(&self, machines: &[PlannedMachine], other: &Self) -> bool {
        let modelled = machines.iter().any(|machine| machine.model.is_some());
        let same_sets = if modelled {
            self.on_each(machines).eq(other.on_each(machines))
        } else {
            self.set == other.set
        };
        same_sets && self.settings == other.settings
    }

    /// The set on each modelled machine.
    fn on_each(&self, machines: &[PlannedMachine]) -> impl Iterator<Item = PolicySet> {
        let models = machines.iter().filter_map(|machine| machine.model.as_ref());
        models.map(|model| set_on(&self.set, model))
    }
}

/// The set with versions from a machine's kernel.
fn set_on(set: &PolicySet, machine: &Machine) -> PolicySet {
    match machine.kernel {
        Some(kernel) => set.clone().on_kernel(kernel),
        None => set.clone(),
    }
}

/// Why a policy set cannot be replayed on any recording.
pub fn cannot_replay(set: &PolicySet) -> Option<String> {
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
