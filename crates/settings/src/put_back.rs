//! Writes old values back, each setting by itself.

use wakepath_system::journal::Entry;
use wakepath_system::setting::{Access, have_same_meaning};
use wakepath_system::{SettingKey, System};

use crate::entries::drive_model_and_serial;
use crate::plan::sort_in_writing_order;
use crate::text_file::end_interrupted_overwrite;
use crate::write::{verify_by_reading_back, write_setting};
use crate::{Change, SettingsError};

/// What a restore has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Settings that had another value and now have their old value back.
    pub written: Vec<Change>,
    /// Number of settings that had their old value already.
    pub unchanged: usize,
    /// Remarks for the user about the restore.
    pub notes: Vec<String>,
    /// Settings of dead processes that are away for the moment, such as settings of an offline CPU. The journal keeps
    /// their entries.
    pub away: Vec<String>,
}

impl Restored {
    /// Adds what another restore did to this result.
    pub(crate) fn add_restored(&mut self, other: Self) {
        self.written.extend(other.written);
        self.unchanged += other.unchanged;
        self.notes.extend(other.notes);
        self.away.extend(other.away);
    }
}

/// A setting that could not be put back.
#[derive(Debug)]
pub(crate) struct FailedRestore {
    pub(crate) key: SettingKey,
    pub(crate) error: SettingsError,
}

impl FailedRestore {
    /// Whether the setting is only away for the moment, such as an offline CPU's.
    pub(crate) const fn is_setting_absent_now(&self) -> bool {
        matches!(self.error, SettingsError::Away { .. })
    }

    /// Turns failures to put settings back into one error.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`] if there are any.
    pub(crate) fn into_single_error(failed: Vec<Self>) -> Result<(), SettingsError> {
        if failed.is_empty() {
            return Ok(());
        }
        let errors = failed.into_iter().map(|failure| failure.error).collect();
        Err(SettingsError::NotRestored(errors))
    }
}

/// Puts back as many entries of the journal as possible; returns the failures.
pub(crate) fn put_back_entries(
    system: &System,
    entries: &[Entry],
    restored: &mut Restored,
) -> Vec<FailedRestore> {
    let mut failed = Vec::new();
    for change in plan_changes_to_old_values(system, entries) {
        let key = change.key.clone();
        let entry = entries.iter().find(|entry| entry.key == key);
        let drive = entry.and_then(|entry| entry.drive.as_deref());
        if let Err(error) = put_back_one_setting(system, change, drive, restored) {
            failed.push(FailedRestore { key, error });
        }
    }
    failed
}

/// Changes from the present values to the old ones, in the order of writing.
fn plan_changes_to_old_values(system: &System, entries: &[Entry]) -> Vec<Change> {
    let live = system.root().is_live();
    let mut changes: Vec<Change> = entries
        .iter()
        // A process's latency requests end with the process, so the kernel has put them back.
        .filter(|entry| !(live && entry.key.setting.mechanism == Access::Held))
        .map(|entry| Change {
            key: entry.key.clone(),
            // A setting that cannot be read is written anyway.
            old: system.read_setting(&entry.key).unwrap_or_default(),
            new: Some(entry.old.clone()),
        })
        .collect();
    sort_in_writing_order(&mut changes, |change| change.new.as_deref());
    changes
}

/// Puts a setting back to its old value. `noted_drive`: the drive that had the old value.
///
/// # Errors
/// The setting is away, cannot be written, or reads back differently.
fn put_back_one_setting(
    system: &System,
    mut change: Change,
    noted_drive: Option<&str>,
    restored: &mut Restored,
) -> Result<(), SettingsError> {
    let key = &change.key;
    let old = change.new.clone().unwrap_or_default();
    if !system.root().exists(&key.relative_path()) && !is_nvme_feature_of_capture(system, key) {
        return Err(SettingsError::Away {
            key: key.to_string(),
            path: system.root().absolute_path(&key.relative_path()),
            old,
            root: system.root().command_line_option(),
        });
    }
    if let (Some(now), Some(noted)) = (drive_model_and_serial(system, &key.at), noted_drive)
        && now != noted
    {
        restored.notes.push(format!(
            "{key} is of another drive now ({now}, after {noted}); nothing to put back"
        ));
        return Ok(());
    }
    // The value is read once more: writing one setting can have changed another.
    let present = system.read_setting(key).unwrap_or_default();
    if have_same_meaning(key.setting, &present, &old) {
        if key.setting.mechanism == Access::Text {
            // The value counts, whether or not a file of a captured machine can be made as short as it was.
            let _ = end_interrupted_overwrite(system.root(), &key.relative_path());
        }
        restored.unchanged += 1;
        return Ok(());
    }
    let _request = write_setting(system, key, &old)?;
    verify_by_reading_back(system, key, &old)?;
    change.old = present;
    restored.written.push(change);
    Ok(())
}

/// Whether a setting is a feature of a captured drive: files with answers stand for the device.
fn is_nvme_feature_of_capture(system: &System, key: &SettingKey) -> bool {
    matches!(key.setting.mechanism, Access::NvmeFeature(_)) && !system.root().is_live()
}
