//! Whether the persistent settings are in force now.

use serde::Serialize;
use wakepath_system::System;

use crate::other_tools::ToolEvidence;
use crate::supply_switch::read_supply_record_without_lock;
use crate::write::may_result_from_write;
use crate::{PersistentSettings, PowerSupply, SettingsError, find_rival_tools};

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
    pub set_of_other_supply_in_force: Option<PowerSupply>,
    /// Whether the sets were applied since this boot; `None`: only root can read that.
    pub applied: Option<bool>,
    /// Why the sets are not possible on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_possible: Option<String>,
    /// Number of settings with the value of the set.
    pub in_force: usize,
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
    /// Running tools that write this setting; empty: who wrote it is unknown.
    pub writers: Vec<&'static str>,
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
        set_of_other_supply_in_force: in_force
            .map(|record| record.supply)
            .filter(|in_force| {
                settings.set_for_supply_or_any(*in_force) != settings.set_for_supply_or_any(supply)
            }),
        applied: record.as_ref().map(Option::is_some),
        not_possible: None,
        in_force: 0,
        drifted: Vec::new(),
    };
    let plan = match settings.plan_for_supply(system, supply) {
        Ok(plan) => plan,
        Err(error) => {
            state.not_possible = Some(error.to_string());
            return Ok(Some(state));
        }
    };
    let tools = find_rival_tools(system, &plan);
    for change in &plan.changes {
        let Some(expected) = &change.new else {
            continue;
        };
        if may_result_from_write(system, &change.key, expected, &change.old) {
            state.in_force += 1;
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
        });
    }
    Ok(Some(state))
}
