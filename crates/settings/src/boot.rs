//! Persistent settings at boot, and the record that keeps a boot with bad ones from coming again and again.
//!
//! Before the settings are applied, the record has the boot and the settings. An orderly end of the boot, or ten minutes of
//! it, removes the record; settings applied later than that are not recorded. A boot that finds the record of another boot with the same settings leaves them out, and keeps the
//! record: only other settings, `apply --persist`, or `restore` end that.

use std::io;

use serde::{Deserialize, Serialize};
use wakepath_system::journal::{self, read_boot_id};
use wakepath_system::{System, SystemError};

use crate::persistent::is_persistence_off_on_command_line;
use crate::store::remove_file_if_present_in;
use crate::{
    PersistentSettings, PowerSupply, Session, SettingsError, SettingsPlan,
    apply_plan_and_record_supply,
};

/// Seconds of a boot after which settings that it begins with are known not to end it.
const TRIAL_SECONDS: f64 = 600.0;

/// Name of the boot record in the directory of the journal.
const RECORD: &str = "boot.json";

/// What became of the persistent settings at a boot.
#[derive(Debug)]
pub enum BootOutcome {
    /// There is no file of persistent settings.
    NoFile,
    /// The kernel's command line switches persistent settings off.
    SwitchedOff,
    /// The last boot with this set ended uncleanly within ten minutes, so the set is left out.
    LeftOut(String),
    /// The persistent settings are in force, by this plan.
    Applied(SettingsPlan),
}

/// A boot whose settings are on trial.
#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct BootRecord {
    boot: String,
    /// Keys and values of the file of persistent settings.
    settings: String,
}

/// Applies the persistent settings of a machine. The journal gets the values of this boot.
///
/// # Errors
/// The file has a mistake or is for another machine, or a setting cannot be applied; then nothing is changed.
pub fn apply_persistent_settings_at_boot(system: &System) -> Result<BootOutcome, SettingsError> {
    if is_persistence_off_on_command_line(system) {
        return Ok(BootOutcome::SwitchedOff);
    }
    let Some(settings) = PersistentSettings::load(system)? else {
        return Ok(BootOutcome::NoFile);
    };
    let meaning = settings.to_toml_without_comments();
    let mut session = Session::open_at_boot_and_recover(system)?;
    let now = read_boot_id(system.root());
    if let Some(record) = read_boot_record(&session)?
        && record.boot != now
        && record.settings == meaning
    {
        return Ok(BootOutcome::LeftOut(
            settings.format_sets_without_versions(),
        ));
    }
    let supply = PowerSupply::read(system.root());
    let mut plan = settings.plan_for_present_supply(system)?;
    if has_lasted_longer_than_trial(system) {
        session.store.remove_file_if_present(RECORD)?;
    } else {
        let record = BootRecord {
            boot: now,
            settings: meaning,
        };
        let content = serde_json::to_vec(&record).unwrap_or_default();
        session.store.replace_file_atomically(RECORD, &content)?;
    }
    match apply_plan_and_record_supply(&mut session, &settings, supply, &plan) {
        Ok(whole) => plan.notes = whole.notes,
        Err(error) => {
            // Settings that could not be put back are still on trial. If the record stays, the set is only left out once
            // more.
            if session.journal.entries_with_oldest_values().is_empty() {
                _ = session.store.remove_file_if_present(RECORD);
            }
            return Err(error);
        }
    }
    Ok(BootOutcome::Applied(plan))
}

/// Whether the timer that ends a trial has run out already in this boot.
fn has_lasted_longer_than_trial(system: &System) -> bool {
    let uptime = system.root().read_text_if_readable("proc/uptime");
    let seconds = uptime.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    seconds.is_some_and(|seconds| seconds > TRIAL_SECONDS)
}

/// Ends the trial of this boot's settings: the boot ends in an orderly way, or has lasted for ten minutes. A set that was left
/// out stays on record.
///
/// # Errors
/// The record cannot be read or removed.
pub fn end_boot_trial(system: &System) -> Result<(), SettingsError> {
    remove_boot_record_if(system, |content| {
        parse_boot_record(content).is_some_and(|record| record.boot == read_boot_id(system.root()))
    })
    .map_err(|error| boot_record_error(system, error))
}

/// Removes the boot record if `is_over` is true of its content. The lock is not taken: a daemon may have it for as long
/// as the boot lasts.
fn remove_boot_record_if(system: &System, is_over: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    let Some(directory) = journal::open_journal_directory(system.root(), false)? else {
        return Ok(());
    };
    match journal::read_journal_directory_file(&directory, RECORD)? {
        Some(content) if is_over(&content) => remove_file_if_present_in(&directory, RECORD),
        _ => Ok(()),
    }
}

fn boot_record_error(system: &System, source: io::Error) -> SettingsError {
    let path = system
        .root()
        .absolute_path(&format!("{}/{RECORD}", journal::DIRECTORY));
    SystemError::Read { path, source }.into()
}

/// Forgets that a set was left out, since somebody has chosen the settings anew or ended them.
///
/// # Errors
/// The record cannot be read or removed.
pub fn forget_boot_trial(system: &System) -> Result<(), SettingsError> {
    remove_boot_record_if(system, |_| true).map_err(|error| boot_record_error(system, error))
}

/// Reads the boot record; `None` also if it is damaged, as after a power cut.
fn read_boot_record(session: &Session) -> Result<Option<BootRecord>, SettingsError> {
    let content = session.store.read_file(RECORD)?;
    Ok(content.and_then(|content| parse_boot_record(&content)))
}

fn parse_boot_record(content: &[u8]) -> Option<BootRecord> {
    serde_json::from_slice(content).ok()
}
