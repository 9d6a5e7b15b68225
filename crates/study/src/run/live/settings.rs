//! What a policy of a study changes on this machine.

use wakepath_settings::{Hold, Session, SettingsError, SettingsPlan, Targets, policy};
use wakepath_system::setting;
use wakepath_system::{SettingKey, System};

use crate::file::{StudyError, unknown};
use crate::plan::PlannedPolicy;

/// A refusal of the settings layer.
pub(super) fn error(e: &SettingsError) -> StudyError {
    StudyError::Settings(e.to_string())
}

/// What the policy changes.
///
/// # Errors
/// This machine cannot have it; the message says what it can.
pub(super) fn plan(system: &System, of: &PlannedPolicy) -> Result<SettingsPlan, StudyError> {
    let named = |e: String| StudyError::Settings(format!("policy '{}': {e}", of.name));
    let mut wanted =
        policy::resolve(system, &of.set, &Targets::default()).map_err(|e| named(e.to_string()))?;
    for (name, value) in &of.settings {
        let Some(info) = setting::find(name) else {
            let known: Vec<&str> = setting::SETTINGS.iter().map(|s| s.name).collect();
            return Err(named(unknown("setting", name, &known)));
        };
        let places = system.places(info.scope);
        if places.is_empty() {
            return Err(named(format!(
                "this machine has no {} for `{name}`",
                info.scope.name()
            )));
        }
        let keys = places
            .into_iter()
            .filter_map(|at| SettingKey::new(info, at));
        wanted.values.extend(keys.map(|key| (key, value.clone())));
    }
    SettingsPlan::new(system, wanted).map_err(|e| named(e.to_string()))
}

/// The right to change settings, if any policy of a plan needs it.
pub(super) fn session(
    system: &System,
    study: &crate::plan::Plan,
) -> Result<Option<Session>, StudyError> {
    for policy in &study.policies {
        if !plan(system, policy)?.changes.is_empty() {
            return Session::open(system).map(Some).map_err(|e| error(&e));
        }
    }
    Ok(None)
}

/// Applies a policy for as long as the hold lives; none if it changes nothing, which needs no rights.
pub(super) fn hold(
    system: &System,
    session: Option<Session>,
    policy: &PlannedPolicy,
) -> Result<Option<Hold>, StudyError> {
    let changes = plan(system, policy)?;
    if changes.changes.is_empty() {
        return Ok(None);
    }
    let session = match session {
        Some(session) => session,
        None => Session::open(system).map_err(|e| error(&e))?,
    };
    session.hold(&changes).map(Some).map_err(|e| error(&e))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wakepath_results::RunOrigin;
    use wakepath_system::Root;

    use super::*;
    use crate::plan;

    #[test]
    fn what_only_the_simulator_has_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let system = System::new(Root::at(temp.path()));
        for set in ["io_uring[iowait=off]", "psd", "poll"] {
            let text = format!(
                "name = 'x'\npolicy = [{{ name = 'p', set = '{set}' }}]\n\
                 [[workload]]\nname = 'a'\ncommand = ['true']\n"
            );
            let of = plan::Plan::new(&text, "x", Path::new("."), RunOrigin::Live).unwrap();
            let error = plan(&system, &of.policies[0]).unwrap_err().to_string();
            assert!(
                error.contains("policy 'p'") && error.contains(set),
                "{error}"
            );
        }
    }
}
