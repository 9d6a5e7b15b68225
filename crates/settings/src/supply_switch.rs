//! Persistent settings when the power supply changes.
//!
//! The record has every setting of the file's sets with the values that wakepath gave it in this boot. A setting with another
//! value has been set by somebody else: it is reported, and stays.

use serde::{Deserialize, Serialize};
use wakepath_system::journal::{self, Entry, Journal, read_boot_id};
use wakepath_system::{SettingKey, System, SystemError};

use crate::entries::drive_model_and_serial;
use crate::kernel_table::{
    find_table_for_kept_tolerance, is_table_left_to_kernel, predict_table_by_kernel,
};
use crate::own_writes::find_own_write;
use crate::persistent::is_persistence_off_on_command_line;
use crate::session::EVENT_LOCK_PATIENCE;
use crate::store::remove_file_if_present_in;
use crate::write::may_result_from_write;
use crate::{Change, PersistentSettings, PowerSupply, Session, SettingsError, SettingsPlan};

/// Name of the supply record in the directory of the journal.
const RECORD: &str = "supply.json";
/// Most settings that a note names: large machines have some for each CPU.
const MOST_NAMED: usize = 4;

/// The record of the settings that persistent sets name, for this boot.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct SupplyRecord {
    boot: String,
    /// The power supply whose set is in force.
    pub(crate) supply: PowerSupply,
    pub(crate) settings: Vec<RecordedSetting>,
}

/// A setting in the record, with the values that it can have from wakepath.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedSetting {
    pub(crate) key: SettingKey,
    /// The value to be written last; behind it the value before, until the write is known to have happened.
    pub(crate) values: Vec<String>,
    /// Somebody else's value that was reported already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reported: Option<String>,
}

impl RecordedSetting {
    /// A setting before its write.
    pub(crate) fn with_value_and_before(key: SettingKey, value: String, before: String) -> Self {
        Self {
            key,
            values: vec![value, before],
            reported: None,
        }
    }

    /// Whether a value that was read can be from wakepath.
    pub(crate) fn results_in(&self, system: &System, found: &str) -> bool {
        let mut values = self.values.iter();
        values.any(|value| may_result_from_write(system, &self.key, value, found))
    }

    /// The setting as drifted to a value that is not from wakepath's persistent settings.
    pub(crate) fn describe_drift(
        &self,
        system: &System,
        journal: &Journal,
        found: String,
    ) -> DriftedSetting {
        let own_write = find_own_write(system, journal, &self.key, &found);
        DriftedSetting {
            key: self.key.clone(),
            expected: self.values.first().cloned().unwrap_or_default(),
            by_later_apply: own_write.is_some(),
            found,
        }
    }
}

impl SupplyRecord {
    /// Leaves only the new value of each setting of a plan, after the writes.
    pub(crate) fn keep_only_new_values_of_plan(&mut self, plan: &SettingsPlan) {
        for setting in &mut self.settings {
            if plan.changes.iter().any(|c| c.key == setting.key) {
                setting.values.truncate(1);
                setting.reported = None;
            }
        }
    }

    /// Takes over the drives' tables that the kernel chooses because a plan has changed their tolerances, after the writes. A drive
    /// under reset gets its table later, so that the predicted one counts, too.
    fn take_over_tables_left_to_kernel(&mut self, system: &System, plan: &SettingsPlan) {
        let left = self.settings.iter_mut();
        for setting in left.filter(|setting| is_table_left_to_kernel(plan, &setting.key)) {
            let predicted = predict_table_by_kernel(system, &setting.key);
            let found = system.read_setting(&setting.key).ok();
            let mut values: Vec<String> = predicted.into_iter().chain(found).collect();
            values.dedup();
            if !values.is_empty() {
                setting.values = values;
                setting.reported = None;
            }
        }
    }

    /// Notes that somebody else's value is reported. Returns whether it was not reported before.
    pub(crate) fn note_reported_drift(&mut self, drifted: &DriftedSetting) -> bool {
        let setting = self.settings.iter_mut().find(|s| s.key == drifted.key);
        setting.is_some_and(|setting| {
            let found = Some(drifted.found.clone());
            let is_new = setting.reported != found;
            setting.reported = found;
            is_new
        })
    }
}

/// A setting of the record that somebody else has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftedSetting {
    /// The setting.
    pub key: SettingKey,
    /// The value that the persistent set has for the setting.
    pub expected: String,
    /// Value now.
    pub found: String,
    /// Whether a later `wakepath apply` has written the value, by the journal; otherwise somebody else has.
    pub by_later_apply: bool,
}

/// A set that was put in force because the power supply had changed.
#[derive(Debug)]
pub struct SupplySwitch {
    /// The supply whose set is in force now.
    pub supply: PowerSupply,
    /// The changes that were written; settings that somebody else has changed are not in the plan.
    pub plan: SettingsPlan,
    /// Settings that stay as somebody else has set them.
    pub drift: Vec<DriftedSetting>,
}

/// What was done about a change of the power supply.
#[derive(Debug)]
pub enum SupplyOutcome {
    /// There is no file of persistent settings.
    NoFile,
    /// The kernel's command line switches persistent settings off.
    SwitchedOff,
    /// No persistent settings have been applied since this boot.
    NotInForce,
    /// The set of the present supply is in force already.
    Unchanged(PowerSupply),
    /// The set of the present supply was put in force.
    Switched(SupplySwitch),
}

/// Puts the set of the present power supply in force, if another one's is. What only the other set names gets the value of
/// before. Borrows the lock from a daemon, or waits up to 20 s while another wakepath has it.
///
/// # Errors
/// The file has a mistake, a setting cannot be written, or another wakepath keeps the lock; then the other set stays in force.
pub fn switch_to_set_of_present_supply(system: &System) -> Result<SupplyOutcome, SettingsError> {
    if is_persistence_off_on_command_line(system) {
        return Ok(SupplyOutcome::SwitchedOff);
    }
    let Some(settings) = PersistentSettings::load(system)? else {
        return Ok(SupplyOutcome::NoFile);
    };
    let supply = PowerSupply::read(system.root());
    // The record is read without the lock, which a daemon may have: most events of a supply change only the charge.
    match read_supply_record_without_lock(system)? {
        None => return Ok(SupplyOutcome::NotInForce),
        Some(record) if record.supply == supply => return Ok(SupplyOutcome::Unchanged(supply)),
        Some(_) => {}
    }
    let mut session = Session::open_when_unlocked_and_recover(system, EVENT_LOCK_PATIENCE)?;
    let Some(mut record) = session.read_supply_record_of_this_boot()? else {
        return Ok(SupplyOutcome::NotInForce);
    };
    // Another event may have switched the set meanwhile, and the plug may have been pulled again.
    let switched = switch_set_under_lock(&mut session, &settings, &mut record)?;
    Ok(switched.map_or(
        SupplyOutcome::Unchanged(record.supply),
        SupplyOutcome::Switched,
    ))
}

/// Puts the set of the present power supply in force under the lock, and brings the record up to date. `None`: that set is
/// in force already.
///
/// # Errors
/// A set cannot be followed, or a setting cannot be written; then the other set stays in force.
pub(crate) fn switch_set_under_lock(
    session: &mut Session,
    settings: &PersistentSettings,
    record: &mut SupplyRecord,
) -> Result<Option<SupplySwitch>, SettingsError> {
    let system = session.system.clone();
    let supply = PowerSupply::read(system.root());
    if record.supply == supply {
        return Ok(None);
    }
    let before = record.clone();
    let mut drift = if settings.enforce {
        Vec::new()
    } else {
        find_drifted_settings(&session.system, &session.journal, &before)
    };
    let mut wanted = settings.plan_for_supply(&system, supply)?;
    wanted
        .changes
        .retain(|change| drift.iter().all(|drifted| drifted.key != change.key));
    // The kernel replaces a table together with the tolerance, whoever has set the table.
    drift.retain(|drifted| !is_table_left_to_kernel(&wanted, &drifted.key));
    let oldest = session.journal.entries_with_oldest_values();
    add_old_values_of_settings_only_in_record(
        &session.system,
        &oldest,
        &before,
        &drift,
        &mut wanted,
    );
    let plan = wanted.with_old_values_read_again(&system)?;
    // Until all is written, the record names the supply before, so that the next event makes up for a kill.
    let mut after = supply_record_before_writes(&system, before.supply, &plan, &before.settings);
    session.write_supply_record(&after)?;
    if let Err(error) = session.apply_plan(&plan) {
        session.write_supply_record(&before)?;
        return Err(error);
    }
    after.supply = supply;
    after.keep_only_new_values_of_plan(&plan);
    after.take_over_tables_left_to_kernel(&system, &plan);
    session.write_supply_record(&after)?;
    *record = after;
    Ok(Some(SupplySwitch {
        supply,
        plan,
        drift,
    }))
}

/// Applies the plan of a supply, and records what each setting of the file's sets has after it. What only the set before names
/// gets its old value. Returns the whole plan.
///
/// # Errors
/// A setting cannot be read or written; then nothing of the plan is in force, and the set before is.
pub fn apply_plan_and_record_supply(
    session: &mut Session,
    settings: &PersistentSettings,
    supply: PowerSupply,
    plan: &SettingsPlan,
) -> Result<SettingsPlan, SettingsError> {
    let before = session.read_supply_record_of_this_boot()?;
    let whole = add_old_values_of_replaced_set(session, plan)?;
    let present = record_present_values_of_all_sets(&session.system, settings, before.as_ref())?;
    let mut record = supply_record_before_writes(&session.system, supply, &whole, &present);
    session.write_supply_record(&record)?;
    if let Err(error) = session.apply_plan(&whole) {
        session.put_back_supply_record(before.as_ref())?;
        return Err(error);
    }
    record.keep_only_new_values_of_plan(&whole);
    record.take_over_tables_left_to_kernel(&session.system, &whole);
    // What no set of the file names is nobody's drift from now on.
    record
        .settings
        .retain(|setting| present.iter().any(|named| named.key == setting.key));
    session.write_supply_record(&record)?;
    Ok(whole)
}

/// Records the settings that the file's sets for all supplies name, with their present values, or as they are recorded already:
/// somebody else's value does not become wakepath's own.
///
/// # Errors
/// A set cannot be followed, or a setting cannot be read.
fn record_present_values_of_all_sets(
    system: &System,
    settings: &PersistentSettings,
    before: Option<&SupplyRecord>,
) -> Result<Vec<RecordedSetting>, SettingsError> {
    let mut present: Vec<RecordedSetting> = Vec::new();
    for supply in PowerSupply::ALL {
        let changes = settings.plan_for_supply(system, supply)?.changes;
        for change in changes.into_iter().filter(|change| change.new.is_some()) {
            if present.iter().any(|setting| setting.key == change.key) {
                continue;
            }
            let mut known = before.into_iter().flat_map(|record| &record.settings);
            let recorded = known.find(|setting| setting.key == change.key).cloned();
            present.push(recorded.unwrap_or_else(|| RecordedSetting {
                key: change.key,
                values: vec![change.old],
                reported: None,
            }));
        }
    }
    Ok(present)
}

/// Adds to a plan what only the set that it replaces names, by this boot's record: these settings get their old values, so
/// that the machine is as after a boot with the plan. A table of a drive whose latency tolerance the plan has is the kernel's own
/// for that tolerance. What somebody else has changed meanwhile stays. A note names each.
///
/// # Errors
/// The record or a setting cannot be read.
pub fn add_old_values_of_replaced_set(
    session: &Session,
    plan: &SettingsPlan,
) -> Result<SettingsPlan, SettingsError> {
    let record = session.read_supply_record_of_this_boot()?;
    add_old_values_by_record(&session.system, &session.journal, record, plan)
}

/// As [`add_old_values_of_replaced_set`], for a plan that is only described. Needs neither the lock nor root.
///
/// # Errors
/// The record or a setting cannot be read.
pub fn describe_plan_with_old_values_of_replaced_set(
    system: &System,
    plan: &SettingsPlan,
) -> Result<SettingsPlan, SettingsError> {
    let Some(journal) = Journal::read_without_lock(system.root()) else {
        return Ok(plan.clone());
    };
    let record = read_supply_record_without_lock(system)?;
    add_old_values_by_record(system, &journal, record, plan)
}

fn add_old_values_by_record(
    system: &System,
    journal: &Journal,
    record: Option<SupplyRecord>,
    plan: &SettingsPlan,
) -> Result<SettingsPlan, SettingsError> {
    let Some(mut replaced) = record else {
        return Ok(plan.clone());
    };
    replaced
        .settings
        .retain(|setting| !plan.has_new_value_for_setting(&setting.key));
    let mut drift = find_drifted_settings(system, journal, &replaced);
    drift.retain(|drifted| !is_table_left_to_kernel(plan, &drifted.key));
    let mut whole = plan.clone();
    let oldest = journal.entries_with_oldest_values();
    add_old_values_of_settings_only_in_record(system, &oldest, &replaced, &drift, &mut whole);
    let mut whole = whole.with_old_values_read_again(system)?;
    // Most settings of the other supply's set have their old values already.
    whole.changes.retain(|change| {
        change.differs() || plan.changes.iter().any(|planned| planned.key == change.key)
    });
    let differing = whole.differing_changes();
    let (put_back, by_kernel): (Vec<&Change>, Vec<&Change>) = differing
        .filter(|change| !plan.has_new_value_for_setting(&change.key))
        .partition(|change| has_old_value_as_new(change, &oldest));
    let replaced_keys = replaced.settings.iter().map(|setting| &setting.key);
    let left_to_kernel = replaced_keys.filter(|key| is_table_left_to_kernel(plan, key));
    let by_kernel = by_kernel.iter().map(|change| &change.key);
    let notes = [
        (
            list_some_settings(put_back.iter().map(|change| &change.key)),
            "put back to the value before",
        ),
        (
            list_some_settings(by_kernel.chain(left_to_kernel)),
            "as the kernel chooses it for the set's drive-latency",
        ),
        (
            list_some_settings(drift.iter().map(|drifted| &drifted.key)),
            "left as somebody else has set it",
        ),
    ];
    let told = notes.iter().filter(|(names, _)| !names.is_empty());
    let told: Vec<String> = told
        .map(|(names, what)| format!("not in this set: {names}; {what}"))
        .collect();
    whole.notes.extend(told);
    Ok(whole)
}

/// Names some settings, and counts the others.
fn list_some_settings<'a>(keys: impl Iterator<Item = &'a SettingKey>) -> String {
    let mut names: Vec<String> = keys.map(ToString::to_string).collect();
    let others = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    match others {
        0 => names.join(", "),
        _ => format!("{} and {others} more", names.join(", ")),
    }
}

/// Removes the supply record, since the settings have been put back: the next change of the supply then writes nothing.
///
/// # Errors
/// The record cannot be removed.
pub fn remove_supply_record(system: &System) -> Result<(), SettingsError> {
    let directory = journal::open_journal_directory(system.root(), false)
        .map_err(|e| supply_record_error(system, e))?;
    directory.map_or(Ok(()), |directory| {
        remove_file_if_present_in(&directory, RECORD).map_err(|e| supply_record_error(system, e))
    })
}

impl Session {
    /// Reads the supply record, if it is of this boot.
    pub(crate) fn read_supply_record_of_this_boot(
        &self,
    ) -> Result<Option<SupplyRecord>, SettingsError> {
        let content = self.store.read_file(RECORD)?;
        Ok(parse_supply_record_of_this_boot(&self.system, content))
    }

    /// Puts the supply record back to what it was before; `None`: there was no record.
    fn put_back_supply_record(&self, before: Option<&SupplyRecord>) -> Result<(), SettingsError> {
        match before {
            Some(before) => self.write_supply_record(before),
            None => self.store.remove_file_if_present(RECORD),
        }
    }

    pub(crate) fn write_supply_record(&self, record: &SupplyRecord) -> Result<(), SettingsError> {
        let content = serde_json::to_vec(record).unwrap_or_default();
        self.store.replace_file_atomically(RECORD, &content)
    }
}

/// The supply record for a plan, before its writes. Settings of `known` that the plan leaves out keep their values.
fn supply_record_before_writes(
    system: &System,
    supply: PowerSupply,
    plan: &SettingsPlan,
    known: &[RecordedSetting],
) -> SupplyRecord {
    let mut settings: Vec<RecordedSetting> = plan
        .changes
        .iter()
        .filter_map(|change| {
            Some(RecordedSetting::with_value_and_before(
                change.key.clone(),
                change.new.clone()?,
                change.old.clone(),
            ))
        })
        .collect();
    for setting in known {
        if settings.iter().all(|s| s.key != setting.key) {
            settings.push(setting.clone());
        }
    }
    SupplyRecord {
        boot: read_boot_id(system.root()),
        supply,
        settings,
    }
}

/// Recorded settings whose present value is from somebody else. A setting that is away for the moment is left out.
fn find_drifted_settings(
    system: &System,
    journal: &Journal,
    record: &SupplyRecord,
) -> Vec<DriftedSetting> {
    let drifted = record.settings.iter().filter_map(|setting| {
        let found = system.read_setting(&setting.key).ok()?;
        (!setting.results_in(system, &found))
            .then(|| setting.describe_drift(system, journal, found))
    });
    drifted.collect()
}

/// Adds settings to the plan that only the set in the record names: they get their old values. `oldest`: this boot's own values.
fn add_old_values_of_settings_only_in_record(
    system: &System,
    oldest: &[Entry],
    record: &SupplyRecord,
    drift: &[DriftedSetting],
    plan: &mut SettingsPlan,
) {
    let keys = record.settings.iter().map(|setting| &setting.key);
    let put_back: Vec<Change> = keys
        .filter(|key| {
            !plan.has_new_value_for_setting(key)
                && !is_table_left_to_kernel(plan, key)
                && drift.iter().all(|drifted| drifted.key != **key)
        })
        .filter_map(|key| plan_change_to_old_value(system, oldest, plan, key))
        .collect();
    plan.changes
        .retain(|known| put_back.iter().all(|change| change.key != known.key));
    plan.changes.extend(put_back);
}

/// Plans the change of a setting, which the plan does not have, to the value that a boot with the plan would have. `oldest`: this
/// boot's own values. `None`: that value is not known, is impossible now, or is of another drive.
fn plan_change_to_old_value(
    system: &System,
    oldest: &[Entry],
    plan: &SettingsPlan,
    key: &SettingKey,
) -> Option<Change> {
    let entry = oldest.iter().find(|entry| entry.key == *key)?;
    // Another drive may have taken the name of the recorded one.
    if entry.drive != drive_model_and_serial(system, &key.at) {
        return None;
    }
    let old = find_table_for_kept_tolerance(system, plan, oldest, key)
        .unwrap_or_else(|| entry.old.clone());
    system.check_setting_value(key, &old).ok()?;
    Some(Change {
        key: key.clone(),
        old: system.read_setting(key).ok()?,
        new: Some(old),
    })
}

/// Whether a change puts a setting back to this boot's own value.
fn has_old_value_as_new(change: &Change, oldest: &[Entry]) -> bool {
    let mut entries = oldest.iter();
    entries.any(|entry| entry.key == change.key && Some(&entry.old) == change.new.as_ref())
}

pub(crate) fn read_supply_record_without_lock(
    system: &System,
) -> Result<Option<SupplyRecord>, SettingsError> {
    let directory = journal::open_journal_directory(system.root(), false)
        .map_err(|e| supply_record_error(system, e))?;
    let Some(directory) = directory else {
        return Ok(None);
    };
    let content = journal::read_journal_directory_file(&directory, RECORD)
        .map_err(|e| supply_record_error(system, e))?;
    Ok(parse_supply_record_of_this_boot(system, content))
}

/// Parses the supply record, if it is of this boot; `None` also if it is damaged, as after a power cut.
fn parse_supply_record_of_this_boot(
    system: &System,
    content: Option<Vec<u8>>,
) -> Option<SupplyRecord> {
    let record: SupplyRecord = serde_json::from_slice(&content?).ok()?;
    (record.boot == read_boot_id(system.root())).then_some(record)
}

fn supply_record_error(system: &System, source: std::io::Error) -> SettingsError {
    let path = system
        .root()
        .absolute_path(&format!("{}/{RECORD}", journal::DIRECTORY));
    SystemError::Read { path, source }.into()
}
