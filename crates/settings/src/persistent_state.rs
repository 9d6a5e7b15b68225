//! Whether the persistent settings are in force now.

use serde::Serialize;
use wakepath_system::System;
use wakepath_system::journal::{ChangeReason, Journal, read_boot_id};
use wakepath_system::setting::have_same_meaning;

use crate::kernel_table::is_table_by_kernel;
use crate::other_tools::ToolEvidence;
use crate::own_writes::find_own_write;
use crate::reset::{SettingSurvival, find_survival};
use crate::seen_writes::{SeenWrite, find_seen_write, read_seen_writes};
use crate::supply_switch::{RecordedSetting, SupplyRecord, read_supply_record_without_lock};
use crate::write::may_result_from_write;
use crate::{Change, PersistentSettings, PowerSupply, SettingsError, find_rival_tools};

/// The state of the persistent settings of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersistentState {
    /// The policy sets of the file.
    pub sets: String,
    /// The power supply whose set counts now.
    pub supply: PowerSupply,
    /// The other supply, if its set is still in force: the event of the plug came to nothing, and the next event of any kind
    /// makes up for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_supply_in_force: Option<PowerSupply>,
    /// Whether the sets were applied since this boot; `None`: only root can read that.
    pub applied: Option<bool>,
    /// Why a boot applies nothing of the file on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_possible: Option<String>,
    /// Why each policy of the set is not possible here that is not; the others are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub impossible_policies: Vec<String>,
    /// Drives that are left out, since the sets were not made for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Number of settings with the value of the set.
    pub in_force: usize,
    /// These settings, if a boot applies nothing of the file: they have the value all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_force_though_left_out: Vec<String>,
    /// Settings with another value than the set has.
    pub drifted: Vec<DriftState>,
}

/// A setting with another value than the persistent set has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriftState {
    /// The setting and its place.
    pub setting: String,
    /// The value that the set has.
    pub expected: String,
    /// Value now.
    pub found: String,
    /// Running tools that write this setting.
    pub writers: Vec<&'static str>,
    /// The process whose write of the value the daemon has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_writer: Option<String>,
    /// Other evidence of the value's origin. Without evidence, `writers` and `seen_writer` the origin is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<DriftEvidence>,
}

/// Evidence of where the value of a setting is from. Only root can read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftEvidence {
    /// A later `wakepath apply` has written the value, by the journal.
    LaterApply,
    /// A wakepath that runs holds the value for a time, by the journal.
    HeldForATime,
    /// The running daemon has written the value, by the journal.
    Daemon,
    /// The set for the other supply is still in force, by the record.
    OtherSupply,
    /// The value is that of the file before it was changed, by the record.
    FileChanged,
    /// The set in force does not name the setting, by the record.
    NotInForceYet,
    /// This boot's own value, or the kernel's own table of a drive, which an event such as sleep gives this setting.
    Reset,
}

/// Reads the state of the persistent settings; `None` without a file of them. Needs no root, except for APST tables.
///
/// # Errors
/// The file cannot be read or has a mistake.
pub fn read_persistent_state(system: &System) -> Result<Option<PersistentState>, SettingsError> {
    let Some(settings) = PersistentSettings::load(system)? else {
        return Ok(None);
    };
    let supply = PowerSupply::read(system.root());
    // Only root can read the record.
    let record = read_supply_record_without_lock(system).ok();
    let in_force = record.as_ref().and_then(Option::as_ref);
    let mut state = PersistentState {
        sets: settings.format_sets_without_versions(),
        supply,
        other_supply_in_force: in_force.map(|record| record.supply).filter(|in_force| {
            settings.set_for_supply_or_any(*in_force) != settings.set_for_supply_or_any(supply)
        }),
        applied: record.as_ref().map(Option::is_some),
        not_possible: None,
        impossible_policies: Vec::new(),
        left_out: Vec::new(),
        in_force: 0,
        in_force_though_left_out: Vec::new(),
        drifted: Vec::new(),
    };
    if let Err(error) = settings.check_processor(system) {
        state.not_possible = Some(error.to_string());
        return Ok(Some(state));
    }
    let left_out = settings.notes_on_drives_left_out(system);
    state.left_out = left_out.into_iter().map(|(_, note)| note).collect();
    let plan = match settings.plan_for_present_supply(system) {
        Ok(plan) => plan,
        Err(error) => {
            state.not_possible = Some(error.to_string());
            let (possible, refused) = settings.plan_what_is_possible(system, supply);
            state.impossible_policies = refused;
            possible
        }
    };
    let tools = find_rival_tools(system, &plan);
    let seen = read_seen_writes(system);
    // The journal of an earlier boot proves nothing.
    let journal = Journal::read_without_lock(system.root())
        .filter(|journal| journal.boot == read_boot_id(system.root()));
    for change in &plan.changes {
        let Some(expected) = &change.new else {
            continue;
        };
        if may_result_from_write(system, &change.key, expected, &change.old) {
            state.in_force += 1;
            if state.not_possible.is_some() {
                let setting = change.key.to_string();
                state.in_force_though_left_out.push(setting);
            }
            continue;
        }
        let name = change.key.setting.name;
        let writers = tools.iter().filter(|rival| {
            rival.overwrites.contains(&name) && rival.evidence != ToolEvidence::EnabledUnit
        });
        state.drifted.push(DriftState {
            setting: change.key.to_string(),
            expected: expected.clone(),
            found: change.old.clone(),
            writers: writers.map(|rival| rival.tool.title).collect(),
            seen_writer: find_seen_write(&seen, &change.key, &change.old)
                .map(SeenWrite::describe_process),
            evidence: find_evidence(system, journal.as_ref(), in_force, change),
        });
    }
    Ok(Some(state))
}

/// Finds where the value of a drifted setting is from.
fn find_evidence(
    system: &System,
    journal: Option<&Journal>,
    record: Option<&SupplyRecord>,
    change: &Change,
) -> Option<DriftEvidence> {
    let Change {
        key, old: found, ..
    } = change;
    let written = journal.and_then(|journal| find_own_write(system, journal, key, found));
    match written {
        Some(ChangeReason::Held) => return Some(DriftEvidence::HeldForATime),
        Some(ChangeReason::Reserved) => return Some(DriftEvidence::Daemon),
        Some(ChangeReason::Applied) | None => {}
    }
    let entries = journal.map(Journal::entries_with_oldest_values);
    let own = entries.iter().flatten().find(|entry| entry.key == *key);
    let has_own_value = own.is_some_and(|entry| have_same_meaning(key.setting, &entry.old, found));
    if let Some(record) = record {
        match record.settings.iter().find(|s| s.key == *key) {
            Some(setting) if setting.results_in(system, found) => {
                if let cause @ Some(_) = find_cause_in_record(system, record, setting, change) {
                    return cause;
                }
            }
            // A setting that only an earlier set named has its own value by wakepath, too.
            None if written.is_none() || has_own_value => {
                return Some(DriftEvidence::NotInForceYet);
            }
            _ => {}
        }
    }
    if written.is_some() {
        return Some(DriftEvidence::LaterApply);
    }
    let may_be_reset = find_survival(key.setting.name).is_some_and(SettingSurvival::may_be_reset);
    (may_be_reset && (has_own_value || is_table_by_kernel(system, key, found)))
        .then_some(DriftEvidence::Reset)
}

/// Why a setting has the value of the set in force, and not that of the file's set for the present supply.
fn find_cause_in_record(
    system: &System,
    record: &SupplyRecord,
    setting: &RecordedSetting,
    change: &Change,
) -> Option<DriftEvidence> {
    if record.supply != PowerSupply::read(system.root()) {
        return Some(DriftEvidence::OtherSupply);
    }
    let (recorded, expected) = (setting.values.first()?, change.new.as_ref()?);
    // A write that a kill has cut off is no change of the file.
    let is_cut_off = have_same_meaning(change.key.setting, recorded, expected);
    (!is_cut_off).then_some(DriftEvidence::FileChanged)
}
