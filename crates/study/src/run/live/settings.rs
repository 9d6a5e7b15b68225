//! The settings that a policy changes on the measured machine.

use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Kind;
use wakepath_settings::daemon_config::lease_only_config_text;
use wakepath_settings::{Hold, Session, SettingsError, SettingsPlan, Targets, policy};
use wakepath_system::setting;
use wakepath_system::{SettingKey, System};

use crate::file::{StudyError, unknown_name_message};
use crate::plan::{Plan, PlannedPolicy};

/// Converts an error about settings to an error about the study.
pub(super) fn settings_error(e: &SettingsError) -> StudyError {
    StudyError::Settings(e.to_string())
}

/// What a policy changes on the measured machine.
pub(super) struct PolicyChanges {
    /// Settings that stay in force without a process.
    pub(super) settings: SettingsPlan,
    /// Configuration for the daemon that gives the policy's leases; `None` without leases.
    pub(super) daemon: Option<String>,
}

impl PolicyChanges {
    /// Finds out what a policy changes on a machine.
    ///
    /// # Errors
    /// The policy is impossible here; the message names alternatives.
    pub(super) fn new(system: &System, policy: &PlannedPolicy) -> Result<Self, StudyError> {
        let resolved = Self::resolve_on_system(system, policy);
        resolved.map_err(|why| StudyError::Settings(format!("policy '{}': {why}", policy.name)))
    }

    fn resolve_on_system(system: &System, planned: &PlannedPolicy) -> Result<Self, String> {
        let leases = planned.set.policy_of_kind(Kind::Psd);
        let daemon = leases.map(lease_only_config_text).transpose()?;
        let others = copy_set_without_leases(&planned.set)?;
        let mut wanted = policy::resolve_to_settings(system, &others, &Targets::default())
            .map_err(|e| e.to_string())?;
        for (name, value) in &planned.settings {
            let keys = list_setting_keys(system, name)?;
            wanted.values.extend(keys.map(|key| (key, value.clone())));
        }
        let settings = SettingsPlan::from_wanted(system, wanted).map_err(|e| e.to_string())?;
        Ok(Self { settings, daemon })
    }

    /// Whether the policy changes nothing, which needs no rights.
    pub(super) fn is_empty(&self) -> bool {
        self.settings.changes.is_empty() && self.daemon.is_none()
    }
}

/// The policy set without leases, which need the daemon.
fn copy_set_without_leases(set: &PolicySet) -> Result<PolicySet, String> {
    if set.policy_of_kind(Kind::Psd).is_none() {
        return Ok(set.clone());
    }
    let others = set
        .policies()
        .iter()
        .filter(|policy| policy.kind() != Kind::Psd);
    PolicySet::new(others.cloned()).map_err(|e| e.to_string())
}

/// Keys of a setting in all its places on this machine, such as each CPU.
fn list_setting_keys(
    system: &System,
    name: &str,
) -> Result<impl Iterator<Item = SettingKey>, String> {
    let Some(info) = setting::find_setting(name) else {
        let known: Vec<&str> = setting::SETTINGS.iter().map(|s| s.name).collect();
        return Err(unknown_name_message("setting", name, &known));
    };
    let places = system.places_in_scope(info.scope);
    if places.is_empty() {
        let scope = info.scope.name();
        return Err(format!("this machine has no {scope} for `{name}`"));
    }
    Ok(places
        .into_iter()
        .filter_map(|at| SettingKey::for_matching_scope(info, at)))
}

/// Opens a session with the right to change settings, if any policy in the plan needs one.
pub(super) fn open_session_if_needed(
    system: &System,
    plan: &Plan,
) -> Result<Option<Session>, StudyError> {
    for policy in &plan.policies {
        if !PolicyChanges::new(system, policy)?.is_empty() {
            return Session::open_and_recover(system)
                .map(Some)
                .map_err(|e| settings_error(&e));
        }
    }
    Ok(None)
}

/// Applies the settings that need no process, for as long as the hold lives.
pub(super) fn apply_settings_while_held(
    system: &System,
    session: Option<Session>,
    changes: &PolicyChanges,
) -> Result<Hold, StudyError> {
    let session = match session {
        Some(session) => session,
        None => Session::open_and_recover(system).map_err(|e| settings_error(&e))?,
    };
    session
        .apply_while_held(&changes.settings)
        .map_err(|e| settings_error(&e))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wakepath_results::RunOrigin;
    use wakepath_settings::daemon_config::{BoostMode, Config};
    use wakepath_system::Root;

    use super::*;

    fn changes(set: &str) -> Result<PolicyChanges, StudyError> {
        let temp = tempfile::tempdir().unwrap();
        let system = System::new(Root::at_directory(temp.path()));
        let text = format!(
            "name = 'x'\npolicy = [{{ name = 'p', set = '{set}' }}]\n\
             [[workload]]\nname = 'a'\ncommand = ['true']\n"
        );
        let plan = Plan::from_text(&text, "x", Path::new("."), RunOrigin::Live).unwrap();
        PolicyChanges::new(&system, &plan.policies[0])
    }

    #[test]
    fn what_only_the_simulator_has_is_refused() {
        for set in ["io_uring[iowait=off]", "psd[rule=module]", "poll"] {
            let error = changes(set).err().unwrap().to_string();
            assert!(
                error.contains("policy 'p'") && error.contains(set),
                "{error}"
            );
        }
    }

    #[test]
    fn leases_alone_change_no_setting_and_start_a_daemon_without_boost() {
        let changes = changes("psd[timeout=5ms,ceiling=20us]").unwrap();
        assert!(changes.settings.changes.is_empty() && !changes.is_empty());
        let config = Config::parse("x", &changes.daemon.unwrap()).unwrap();
        let leases = config.policy.requested_lease_settings().unwrap();
        assert_eq!(leases.timeout_ms, 5);
        assert_eq!(config.boost.mode, BoostMode::Off);
        assert!(config.drive.is_empty());
    }
}
