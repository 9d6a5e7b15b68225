//! Puts sets for the drives of one model into the file of persistent settings.

use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::System;

use crate::persistent::{
    DRIVE_POLICIES, DriveModelSets, format_policy_without_version, is_drive_policy,
    persistent_file_error, read_drive_models, read_processor_name,
};
use crate::{PersistentSettings, PowerSupply, SettingsError, SupplySets};

impl PersistentSettings {
    /// Puts a set into the tables `[[drive]]` of the file, for the models of some drives of this machine: for one power supply,
    /// or with `None` for those without a set of their own. `named`: controllers such as `nvme0`, or models. All else of the file
    /// stays. Returns also what the user has to know before the file is written.
    ///
    /// # Errors
    /// The file has a mistake; the set has a policy that is none of drives; the machine has no such drive; or a set for any
    /// supply would not be in force, since the table has another one for the present supply.
    pub fn load_and_put_drive_set(
        system: &System,
        named: &[String],
        supply: Option<PowerSupply>,
        set: &PolicySet,
    ) -> Result<(Self, Vec<String>), SettingsError> {
        if let Some(other) = find_policy_not_of_drives(set) {
            return Err(SettingsError::Policy {
                policy: other,
                why: format!(
                    "is no policy of a drive, and --drives with --persist keeps only those; expected {DRIVE_POLICIES}"
                ),
            });
        }
        let models = find_models_of_drives(system, named)?;
        let mut settings = match Self::load(system)? {
            Some(loaded) => loaded,
            None => Self {
                processor: read_processor_name(system),
                ..Self::default()
            },
        };
        let path = Self::file_path(system);
        let present = PowerSupply::read(system.root());
        let stay = settings.format_sets_without_versions();
        for model in models {
            let sets = settings.sets_for_model_mut(&model);
            if supply.is_none() && sets.own_set_for_supply(present).is_some() {
                let message = format!(
                    "[[drive]] {model:?}: has a set of its own for {present}, which this machine is on, so that a set for \
                     any power supply would not be in force; give --on {present}, or take the line `{present}` out"
                );
                return Err(persistent_file_error(&path, message));
            }
            *sets.own_or_any_set_mut(supply) = Some(set.clone());
        }
        settings.origin = None;
        let notes = if stay.is_empty() {
            Vec::new()
        } else {
            let now = settings.format_sets_without_versions();
            vec![format!("{}: had {stay}; will have {now}", path.display())]
        };
        Ok((settings, notes))
    }

    /// The sets of a model's table, which is made if it is missing.
    fn sets_for_model_mut(&mut self, model: &str) -> &mut SupplySets {
        let known = self.drive_sets.iter().position(|own| own.model == model);
        let place = known.unwrap_or_else(|| {
            self.drive_sets.push(DriveModelSets {
                model: model.to_owned(),
                sets: SupplySets::default(),
            });
            self.drive_sets.len() - 1
        });
        &mut self.drive_sets[place].sets
    }
}

/// A policy of a set that no drive has; its profile counts as one.
fn find_policy_not_of_drives(set: &PolicySet) -> Option<String> {
    let other = |policy: &&PolicySpec| !is_drive_policy(policy);
    let profile = set.profile().map(ToString::to_string);
    let mut policies = set.policies().iter();
    profile.or_else(|| policies.find(other).map(format_policy_without_version))
}

/// The models of drives that are given by controller or by model, each once.
///
/// # Errors
/// The machine has no such drive, or does not tell the drive's model.
fn find_models_of_drives(system: &System, named: &[String]) -> Result<Vec<String>, SettingsError> {
    let drives = read_drive_models(system);
    let mut models: Vec<String> = Vec::new();
    for wanted in named {
        let found = drives
            .iter()
            .find(|(name, model)| name == wanted || model == wanted.trim());
        let Some((_, model)) = found else {
            let known: Vec<String> = drives
                .iter()
                .map(|(name, model)| format!("{name} ({model})"))
                .collect();
            let expected = if known.is_empty() {
                "this machine shows no NVMe drive with a model".to_owned()
            } else {
                format!("expected one of {}", known.join(", "))
            };
            return Err(SettingsError::Policy {
                policy: "--drives".to_owned(),
                why: format!("no drive {wanted}; {expected}"),
            });
        };
        if !models.contains(model) {
            models.push(model.clone());
        }
    }
    Ok(models)
}
