//! Persistent settings at boot, and the record that keeps a boot with bad ones from coming again and again.
//!
//! Before the settings are applied, the record has the boot and the set. An orderly end of the boot, or ten minutes of it,
//! removes the record. A boot that finds the record of another boot with the same set leaves the set out, and keeps the
//! record: only another set, or `apply --persist`, ends that.

use std::io;

use serde::{Deserialize, Serialize};
use wakepath_system::journal::{self, boot};
use wakepath_system::{System, SystemError};

use crate::persistent::is_switched_off;
use crate::store::remove_file;
use crate::{
    PersistentSettings, PowerSupply, Session, SettingsError, SettingsPlan, apply_persistent,
};

/// Name of the record in the directory of the journal.
const RECORD: &str = "boot.json";

/// Outcome of persistent settings at a boot.
#[derive(Debug)]
pub enum BootOutcome {
    /// There is no file.
    NoFile,
    /// The kernel's command line leaves the settings out.
    SwitchedOff,
    /// The last boot with this set ended uncleanly within ten minutes, so the set is left out.
    LeftOut(String),
    /// The settings are in force, by this plan.
    Applied(SettingsPlan),
}

/// A boot whose settings are on trial.
#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct BootRecord {
    boot: String,
    set: String,
}

/// Applies the persistent settings of a machine. The journal gets the values of this boot.
///
/// # Errors
/// The file has a mistake or is for another machine, or a setting cannot be applied; then nothing is changed.
pub fn apply_at_boot(system: &System) -> Result<BootOutcome, SettingsError> {
    if is_switched_off(system) {
        return Ok(BootOutcome::SwitchedOff);
    }
    let Some(settings) = PersistentSettings::load(system)? else {
        return Ok(BootOutcome::NoFile);
    };
    let set = settings.sets_text();
    let mut session = Session::at_boot(system)?;
    let now = boot(system.root());
    if let Some(record) = read_record(&session)?
        && record.boot != now
        && record.set == set
    {
        return Ok(BootOutcome::LeftOut(set));
    }
    let supply = PowerSupply::read(system.root());
    let plan = settings.plan(system)?;
    let record = BootRecord { boot: now, set };
    let content = serde_json::to_vec(&record).unwrap_or_default();
    session.store.replace(RECORD, &content)?;
    if let Err(error) = apply_persistent(&mut session, &settings, supply, &plan) {
        // Nothing is in force, so nothing is on trial.
        session.store.remove(RECORD)?;
        return Err(error);
    }
    Ok(BootOutcome::Applied(plan))
}

/// Ends the trial of this boot's settings: the boot ends in an orderly way, or has lasted for ten minutes. A set that was left
/// out stays on record.
///
/// # Errors
/// The record cannot be read or removed.
pub fn end_boot_trial(system: &System) -> Result<(), SettingsError> {
    // Without the lock, which a daemon may have for as long as the boot lasts.
    let Some(directory) =
        journal::directory(system.root(), false).map_err(|e| record_error(system, e))?
    else {
        return Ok(());
    };
    let content = journal::read(&directory, RECORD).map_err(|e| record_error(system, e))?;
    match parse_record(content) {
        Some(record) if record.boot == boot(system.root()) => {
            remove_file(&directory, RECORD).map_err(|e| record_error(system, e))
        }
        _ => Ok(()),
    }
}

fn record_error(system: &System, source: io::Error) -> SettingsError {
    let path = system
        .root()
        .path(&format!("{}/{RECORD}", journal::DIRECTORY));
    SystemError::Read { path, source }.into()
}

/// Forgets that a set was left out, since somebody has chosen the settings anew.
///
/// # Errors
/// The record cannot be removed.
pub fn forget_boot_trial(session: &Session) -> Result<(), SettingsError> {
    session.store.remove(RECORD)
}

/// The record; `None` also if it is damaged, as after a power cut.
fn read_record(session: &Session) -> Result<Option<BootRecord>, SettingsError> {
    Ok(parse_record(session.store.read(RECORD)?))
}

fn parse_record(content: Option<Vec<u8>>) -> Option<BootRecord> {
    serde_json::from_slice(&content?).ok()
}
