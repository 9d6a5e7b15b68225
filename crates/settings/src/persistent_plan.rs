//! What the file of persistent settings means on this machine: a plan for a power supply.

use wakepath_policies::PolicySet;
use wakepath_system::System;

use crate::persistent::{persistent_file_error, read_drive_models, read_processor_name};
use crate::{
    PersistentSettings, PowerSupply, SettingsError, SettingsPlan, Targets, WantedSetting, policy,
};

/// A set of the file that counts on this machine, with the CPUs and drives that it is for.
pub(crate) struct CountingSet<'a> {
    /// Where the set is in the file.
    place: String,
    pub(crate) set: &'a PolicySet,
    pub(crate) targets: Targets,
}

impl PersistentSettings {
    /// Plans the settings of this machine for its power supply of now. The sets for other supplies are checked, too.
    ///
    /// # Errors
    /// As of [`PersistentSettings::plan_for_supply`].
    pub fn plan_for_present_supply(&self, system: &System) -> Result<SettingsPlan, SettingsError> {
        for supply in PowerSupply::ALL {
            self.plan_for_supply(system, supply)?;
        }
        self.plan_for_supply(system, PowerSupply::read(system.root()))
    }

    /// Plans the settings of this machine for a power supply; empty without a set for that. A note names each drive that is
    /// left out.
    ///
    /// # Errors
    /// The machine is another one, cannot follow a policy, or the settings would end with the process. The message names the
    /// file and the key, if the settings are from a file.
    pub fn plan_for_supply(
        &self,
        system: &System,
        supply: PowerSupply,
    ) -> Result<SettingsPlan, SettingsError> {
        self.check_processor(system)?;
        self.check_cpus_online(system)?;
        let counting = self.sets_that_count(system, supply);
        let mut all = WantedSetting::default();
        for one in &counting {
            let wanted = resolve(system, one).map_err(|e| self.error_at_place(&one.place, e))?;
            all.values.extend(wanted.values);
            all.notes.extend(wanted.notes);
        }
        let left_out = self.notes_on_drives_left_out(system);
        all.notes.extend(left_out.into_iter().map(|(_, note)| note));
        let planned = SettingsPlan::from_wanted(system, all).and_then(|plan| {
            plan.check_outlives_process()?;
            Ok(plan)
        });
        planned.map_err(|error| match find_set_to_blame(system, &counting) {
            Some((place, error)) => self.error_at_place(place, error),
            None => error,
        })
    }

    /// Plans what of the settings for a power supply is possible here. Also returns why each other policy is not.
    pub(crate) fn plan_what_is_possible(
        &self,
        system: &System,
        supply: PowerSupply,
    ) -> (SettingsPlan, Vec<String>) {
        let mut possible = WantedSetting::default();
        let mut refused = Vec::new();
        for one in &self.sets_that_count(system, supply) {
            let profile = one.set.profile().map(PolicySet::from);
            let policies = one.set.policies().iter().cloned().map(PolicySet::from);
            let mut parts = Vec::new();
            for part in profile.into_iter().chain(policies) {
                let alone = CountingSet {
                    place: one.place.clone(),
                    set: &part,
                    targets: one.targets.clone(),
                };
                match plan_alone(system, &alone) {
                    Ok(_) => parts.push(part),
                    Err(error) => refused.push(format!("{}: {error}", one.place)),
                }
            }
            // Each part is possible alone, and together they were a set before.
            let joined = PolicySet::join_sets(parts).ok();
            let wanted =
                joined.and_then(|set| policy::resolve_to_settings(system, &set, &one.targets).ok());
            possible.values.extend(wanted.unwrap_or_default().values);
        }
        let plan = SettingsPlan::from_wanted(system, possible).unwrap_or_default();
        (plan, refused)
    }

    /// The set for a power supply, and those for the models of this machine's drives.
    pub(crate) fn sets_that_count(
        &self,
        system: &System,
        supply: PowerSupply,
    ) -> Vec<CountingSet<'_>> {
        let drives = read_drive_models(system);
        let main = self.sets.key_and_set_for_supply(supply).map(|(key, set)| {
            let excluded_drives = drive_names(&drives, |model| {
                self.has_sets_for_model(model) || !self.is_made_for_model(model)
            });
            CountingSet {
                place: key.to_owned(),
                set,
                targets: Targets {
                    cpus: self.cpus.clone(),
                    excluded_drives,
                    // Whoever gives a command means drives that are there; a boot may come before its drives.
                    drives_may_come_later: self.origin.is_some(),
                    ..Targets::default()
                },
            }
        });
        let by_model = self.drive_sets.iter().filter_map(|own| {
            let (key, set) = own.sets.key_and_set_for_supply(supply)?;
            let names = drive_names(&drives, |model| model == own.model);
            (!names.is_empty()).then(|| CountingSet {
                place: format!("[[drive]] {:?}: {key}", own.model),
                set,
                targets: Targets {
                    drives: Some(names),
                    drives_may_come_later: true,
                    ..Targets::default()
                },
            })
        });
        main.into_iter().chain(by_model).collect()
    }

    fn has_sets_for_model(&self, model: &str) -> bool {
        self.drive_sets.iter().any(|own| own.model == model)
    }

    fn is_made_for_model(&self, model: &str) -> bool {
        let Some(made_for) = &self.drives else {
            return true;
        };
        made_for.iter().any(|known| known.trim() == model)
    }

    /// The name of each drive that the sets were not made for, with a note that says so.
    pub(crate) fn notes_on_drives_left_out(&self, system: &System) -> Vec<(String, String)> {
        let left_out = read_drive_models(system)
            .into_iter()
            .filter(|(_, model)| !self.is_made_for_model(model) && !self.has_sets_for_model(model));
        left_out
            .map(|(name, model)| {
                let note = format!(
                    "{name} ({model}) is left out: it is none of the `drives` that the sets were made for"
                );
                (name, note)
            })
            .collect()
    }

    /// # Errors
    /// The sets were made for another processor.
    pub(crate) fn check_processor(&self, system: &System) -> Result<(), SettingsError> {
        let found = read_processor_name(system);
        let Some(expected) = &self.processor else {
            return Ok(());
        };
        if found.as_ref() == Some(expected) {
            return Ok(());
        }
        let here = found.as_deref().unwrap_or("of unknown name");
        let usual = Self::file_path(system);
        Err(persistent_file_error(
            self.origin.as_deref().unwrap_or(&usual),
            format!(
                "made for the processor {expected}, but this one is {here}; `wakepath apply --persist{}` makes it anew",
                system.root().command_line_option()
            ),
        ))
    }

    /// # Errors
    /// A CPU that the file names is not online. CPUs of the command line are checked with the policies.
    pub(crate) fn check_cpus_online(&self, system: &System) -> Result<(), SettingsError> {
        match (&self.origin, &self.cpus) {
            (Some(file), Some(cpus)) => policy::check_cpus_online(system, cpus)
                .map_err(|why| persistent_file_error(file, format!("cpus: {why}"))),
            _ => Ok(()),
        }
    }

    /// Names the file and the place in it in front of an error, if the settings are from a file.
    pub(crate) fn error_at_place(&self, place: &str, error: SettingsError) -> SettingsError {
        match &self.origin {
            Some(file) => persistent_file_error(file, format!("{place}: {error}")),
            None => error,
        }
    }
}

/// Finds the set whose settings this machine refuses, and why.
fn find_set_to_blame<'a>(
    system: &System,
    counting: &'a [CountingSet<'_>],
) -> Option<(&'a str, SettingsError)> {
    counting.iter().find_map(|one| {
        let error = plan_alone(system, one).err()?;
        Some((one.place.as_str(), error))
    })
}

/// Names of the drives whose model is wanted.
fn drive_names(drives: &[(String, String)], is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let wanted = drives.iter().filter(|(_, model)| is_wanted(model));
    wanted.map(|(name, _)| name.clone()).collect()
}

fn resolve(system: &System, one: &CountingSet<'_>) -> Result<WantedSetting, SettingsError> {
    policy::resolve_to_settings(system, one.set, &one.targets)
}

/// Plans one set as if it was the only one.
fn plan_alone(system: &System, one: &CountingSet<'_>) -> Result<SettingsPlan, SettingsError> {
    let plan = SettingsPlan::from_wanted(system, resolve(system, one)?)?;
    plan.check_outlives_process()?;
    Ok(plan)
}
