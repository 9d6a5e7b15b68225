//! Persistent settings after an event that may have reset some, and settings that somebody else has changed.
//!
//! A setting was reset if the event can reset it and it has a value by the kernel: this boot's own one, for the table of a drive
//! the one that the kernel chooses now, and for an interrupt any without its CPUs. Any other value is from somebody else: it is
//! reported once and stays, unless the file says `enforce = true`.

use std::time::Duration;

use wakepath_system::journal::{self, Entry, Journal};
use wakepath_system::setting::{Access, have_same_meaning};
use wakepath_system::{At, SettingKey, System};
use wakepath_units::cpus::parse_cpu_list;

use crate::entries::drive_model_and_serial;
use crate::kernel_table::is_table_by_kernel;
use crate::persistent::is_persistence_off_on_command_line;
use crate::reset::ResetEvent;
use crate::session::EVENT_LOCK_PATIENCE;
use crate::supply_switch::{
    DriftedSetting, RecordedSetting, SupplyRecord, SupplySwitch, read_supply_record_without_lock,
    switch_set_under_lock,
};
use crate::{
    Change, PersistentSettings, PowerSupply, Session, SettingsError, SettingsPlan, WantedSetting,
};

/// What was done after an event.
#[derive(Debug)]
pub enum ReapplyOutcome {
    /// There is no file of persistent settings.
    NoFile,
    /// The kernel's command line switches persistent settings off.
    SwitchedOff,
    /// No persistent settings have been applied since this boot.
    NotInForce,
    /// The settings were looked at.
    Looked(Reapplied),
}

/// What was found and written after an event.
#[derive(Debug, Default)]
pub struct Reapplied {
    /// The set that was put in force, since the event of the power supply had not done so.
    pub switched: Option<SupplySwitch>,
    /// Settings that the event had reset or that came with it, and that were written.
    pub reset: Vec<SettingKey>,
    /// Settings that somebody else had changed, and that were written, since the file says `enforce = true`.
    pub enforced: Vec<DriftedSetting>,
    /// Settings that somebody else has changed, and that stay. Each value is reported once.
    pub drift: Vec<DriftedSetting>,
    /// What could not be done: the set of the present supply, or settings of a new device.
    pub notes: Vec<String>,
}

/// A setting that is not as the record has it.
struct Deviation {
    drifted: DriftedSetting,
    /// Whether the event has reset the setting; otherwise somebody else has changed it.
    is_reset: bool,
}

/// Writes persistent settings again that an event has reset, and looks for settings that somebody else has changed. If the
/// power supply has changed and its event came to nothing, the set of the present supply is put in force, too.
///
/// Borrows the lock from a daemon, or waits up to 20 s while another wakepath has it, but not after an interval: the next
/// one comes.
///
/// # Errors
/// The file has a mistake, a setting cannot be written, or another wakepath keeps the lock.
pub fn reapply_after_event(
    system: &System,
    event: &ResetEvent,
) -> Result<ReapplyOutcome, SettingsError> {
    if is_persistence_off_on_command_line(system) {
        return Ok(ReapplyOutcome::SwitchedOff);
    }
    let Some(settings) = PersistentSettings::load(system)? else {
        return Ok(ReapplyOutcome::NoFile);
    };
    let Some(record) = read_supply_record_without_lock(system)? else {
        return Ok(ReapplyOutcome::NotInForce);
    };
    if !is_anything_to_do(system, &settings, event, &record) {
        return Ok(ReapplyOutcome::Looked(Reapplied {
            notes: notes_on_ready_drive_left_out(system, &settings, event),
            ..Reapplied::default()
        }));
    }
    let patience = match event {
        ResetEvent::Interval => Duration::ZERO,
        _ => EVENT_LOCK_PATIENCE,
    };
    let mut session = match Session::open_when_unlocked_and_recover(system, patience) {
        // A command has the lock, and changes settings itself: what is drift cannot be told.
        Err(SettingsError::Locked { .. }) if *event == ResetEvent::Interval => {
            return Ok(ReapplyOutcome::Looked(Reapplied::default()));
        }
        opened => opened?,
    };
    // The record is read again under the lock.
    let Some(mut record) = session.read_supply_record_of_this_boot()? else {
        return Ok(ReapplyOutcome::NotInForce);
    };
    reapply_under_lock(&mut session, &settings, event, &mut record).map(ReapplyOutcome::Looked)
}

/// The note that the sets were not made for the drive that an event is about.
fn notes_on_ready_drive_left_out(
    system: &System,
    settings: &PersistentSettings,
    event: &ResetEvent,
) -> Vec<String> {
    let ResetEvent::DriveReady(drive) = event else {
        return Vec::new();
    };
    let notes = settings.notes_on_drives_left_out(system).into_iter();
    notes
        .filter(|(name, _)| name == drive)
        .map(|(_, note)| note)
        .collect()
}

/// Whether an event leaves anything to write or to report. The lock is not taken for that: a daemon that lends it has to put its
/// own settings back first.
fn is_anything_to_do(
    system: &System,
    settings: &PersistentSettings,
    event: &ResetEvent,
    record: &SupplyRecord,
) -> bool {
    if record.supply != PowerSupply::read(system.root()) {
        return true;
    }
    // What a process with the lock changes, such as a daemon's leases, is its own affair while it runs.
    let held = match journal::lock_holder_pid(system.root()) {
        Some(_) => journal::list_held_settings_and_new_values(system.root()).unwrap_or_default(),
        None => Vec::new(),
    };
    let mut settings_to_check =
        (record.settings.iter()).filter(|setting| !held.iter().any(|(key, _)| *key == setting.key));
    let is_any_out_of_place = settings_to_check
        .any(|setting| needs_write_or_report(system, settings.enforce, event, setting));
    if is_any_out_of_place || has_exchanged_drive(system, event) {
        return true;
    }
    // The error is for the caller that has the lock to report.
    plan_settings_of_new_devices(system, settings, event, record)
        .map_or(true, |new| !new.is_empty())
}

/// Whether a recorded setting has a value that has to be replaced or reported.
fn needs_write_or_report(
    system: &System,
    enforces: bool,
    event: &ResetEvent,
    setting: &RecordedSetting,
) -> bool {
    let Some(found) = read_unless_costly(system, event, &setting.key) else {
        return false;
    };
    if setting.results_in(system, &found) || is_interrupt_without_cpu(system, setting) {
        return false;
    }
    let is_reported = setting.reported.as_ref() == Some(&found);
    // An event of another device may have come first, and have passed the value for drift.
    let was_moved_by_event =
        event.may_reset(system.root(), &setting.key) && is_interrupt_moved_off(setting, &found);
    enforces || !is_reported || was_moved_by_event
}

/// Whether the drive of an event has the name of another drive whose settings the journal has.
fn has_exchanged_drive(system: &System, event: &ResetEvent) -> bool {
    if !matches!(event, ResetEvent::DriveReady(_))
        || journal::has_pending_restore(system.root()) == Some(false)
    {
        return false;
    }
    // A journal that cannot be read may have one.
    Journal::read_without_lock(system.root()).is_none_or(|journal| {
        let mut entries = journal.layers.iter().flat_map(|layer| &layer.settings);
        entries.any(|entry| is_drive_exchanged(system, entry))
    })
}

fn reapply_under_lock(
    session: &mut Session,
    settings: &PersistentSettings,
    event: &ResetEvent,
    record: &mut SupplyRecord,
) -> Result<Reapplied, SettingsError> {
    let system = session.system.clone();
    let mut done = Reapplied {
        notes: notes_on_ready_drive_left_out(&system, settings, event),
        ..Reapplied::default()
    };
    forget_settings_of_exchanged_drives(session, record);
    let new = match plan_settings_of_new_devices(&system, settings, event, record) {
        Ok(new) => new,
        Err(error) => {
            done.notes.push(error.to_string());
            Vec::new()
        }
    };
    let mut values = Vec::new();
    for deviation in find_deviations(session, event, record) {
        let Deviation { drifted, is_reset } = deviation;
        if is_reset || settings.enforce {
            session.note_own_value_if_not_in_journal(&drifted);
            values.push((drifted.key.clone(), drifted.expected.clone()));
        }
        if is_reset {
            done.reset.push(drifted.key);
        } else if settings.enforce {
            done.enforced.push(drifted);
        } else if record.note_reported_drift(&drifted) {
            done.drift.push(drifted);
        }
    }
    for change in new {
        if let Some(value) = change.new {
            record.settings.push(RecordedSetting::with_value_and_before(
                change.key.clone(),
                value.clone(),
                change.old,
            ));
            done.reset.push(change.key.clone());
            values.push((change.key, value));
        }
    }
    if !values.is_empty() {
        // A kill from here on leaves settings that the record knows with both values.
        session.write_supply_record(record)?;
        let wanted = WantedSetting {
            values,
            notes: Vec::new(),
        };
        let plan = SettingsPlan::from_wanted(&system, wanted)?;
        session.apply_plan(&plan)?;
        record.keep_only_new_values_of_plan(&plan);
    }
    session.write_supply_record(record)?;
    // Only now: what the event had reset would pass for somebody else's value.
    match switch_set_under_lock(session, settings, record) {
        Ok(switched) => {
            done.switched = switched.map(|switched| SupplySwitch {
                // Each was reported above, or earlier.
                drift: Vec::new(),
                ..switched
            });
        }
        Err(error) => done.notes.push(error.to_string()),
    }
    Ok(done)
}

/// Reads a setting; `None` if it is away for the moment, or if reading it would wake a drive only because time has passed.
fn read_unless_costly(system: &System, event: &ResetEvent, key: &SettingKey) -> Option<String> {
    let is_command = matches!(key.setting.mechanism, Access::NvmeFeature(_));
    if is_command && *event == ResetEvent::Interval {
        return None;
    }
    system.read_setting(key).ok()
}

/// Recorded settings with a value that is not from wakepath.
fn find_deviations(session: &Session, event: &ResetEvent, record: &SupplyRecord) -> Vec<Deviation> {
    let system = &session.system;
    let oldest: Vec<Entry> = session.journal.entries_with_oldest_values();
    let deviations = record.settings.iter().filter_map(|setting| {
        let key = &setting.key;
        let found = read_unless_costly(system, event, key)?;
        if setting.results_in(system, &found) || is_interrupt_without_cpu(system, setting) {
            return None;
        }
        let own_value = oldest.iter().find(|entry| entry.key == *key);
        let has_own_value =
            own_value.is_some_and(|entry| have_same_meaning(key.setting, &entry.old, &found));
        Some(Deviation {
            is_reset: event.may_reset(system.root(), key)
                && (has_own_value
                    || is_table_by_kernel(system, key, &found)
                    || is_interrupt_moved_off(setting, &found)),
            drifted: setting.describe_drift(&session.system, &session.journal, found),
        })
    });
    deviations.collect()
}

/// The CPUs that an interrupt was moved to; `None` for other settings.
fn wanted_cpus_of_interrupt(setting: &RecordedSetting) -> Option<Vec<usize>> {
    match setting.key.at {
        At::Interrupt(_) => parse_cpu_list(setting.values.first()?),
        _ => None,
    }
}

/// Whether none of an interrupt's CPUs is online, so that the kernel has moved it (`migrate_one_irq()`,
/// `kernel/irq/cpuhotplug.c`, Linux 6.12).
fn is_interrupt_without_cpu(system: &System, setting: &RecordedSetting) -> bool {
    let online = system.cpus();
    wanted_cpus_of_interrupt(setting)
        .is_some_and(|wanted| wanted.iter().all(|cpu| !online.contains(cpu)))
}

/// Whether an interrupt has none of its CPUs any more. The kernel moves it to all that are online at that moment, so that the
/// value is this boot's own one only by chance.
fn is_interrupt_moved_off(setting: &RecordedSetting, found: &str) -> bool {
    let found = parse_cpu_list(found).unwrap_or_default();
    wanted_cpus_of_interrupt(setting)
        .is_some_and(|wanted| wanted.iter().all(|cpu| !found.contains(cpu)))
}

/// Changes of settings that the record does not have, for the device that the event is about.
///
/// # Errors
/// The sets of the file cannot be followed now.
fn plan_settings_of_new_devices(
    system: &System,
    settings: &PersistentSettings,
    event: &ResetEvent,
    record: &SupplyRecord,
) -> Result<Vec<Change>, SettingsError> {
    if !matches!(event, ResetEvent::CpuOnline(_) | ResetEvent::DriveReady(_)) {
        return Ok(Vec::new());
    }
    let planned = settings.plan_for_supply(system, record.supply)?.changes;
    let new = planned.into_iter().filter(|change| {
        change.new.is_some()
            && event.concerns_place(system.root(), &change.key.at)
            && record.settings.iter().all(|s| s.key != change.key)
    });
    Ok(new.collect())
}

/// Whether another drive has the name of the drive that an entry is about.
fn is_drive_exchanged(system: &System, entry: &Entry) -> bool {
    let present = drive_model_and_serial(system, &entry.key.at);
    entry.drive.is_some() && present.is_some() && entry.drive != present
}

/// Forgets settings of drives whose name another drive has now: the file's set is planned anew for that drive.
fn forget_settings_of_exchanged_drives(session: &mut Session, record: &mut SupplyRecord) {
    let system = session.system.clone();
    for layer in &mut session.journal.layers {
        layer.settings.retain(|entry| {
            let gone = is_drive_exchanged(&system, entry);
            if gone {
                record.settings.retain(|s| s.key != entry.key);
            }
            !gone
        });
    }
}

impl Session {
    /// Notes the recorded value as this boot's own in the journal, if the journal does not have the setting: the boot had that
    /// value before it was to be written.
    fn note_own_value_if_not_in_journal(&mut self, drifted: &DriftedSetting) {
        let known = self.journal.entries_with_oldest_values();
        if known.iter().any(|entry| entry.key == drifted.key) {
            return;
        }
        let entry = Entry {
            key: drifted.key.clone(),
            old: drifted.expected.clone(),
            new: Some(drifted.expected.clone()),
            written: Vec::new(),
            drive: drive_model_and_serial(&self.system, &drifted.key.at),
        };
        self.journal
            .applied_layer_or_new()
            .add_keeping_old_value(entry);
    }
}
