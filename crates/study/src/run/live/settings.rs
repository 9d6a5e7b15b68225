//! What a policy of a study changes on this machine.

use wakepath_policies::spec::{PolicySet, PolicySpec, SpecError};
use wakepath_settings::{Hold, Plan, Selection, Session, SettingsError, policy};
use wakepath_system::setting;
use wakepath_system::{Key, System};

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
pub(super) fn plan(system: &System, of: &PlannedPolicy) -> Result<Plan, StudyError> {
    let named = |e: String| StudyError::Settings(format!("policy '{}': {e}", of.name));
    if of.settings.contains_key("io_uring_iowait") {
        return Err(named(
            "io_uring_iowait exists only in the simulator: on a real machine each program asks io_uring for it; \
             leave it out, or run a program that does as a `command`"
                .to_owned(),
        ));
    }
    let set = policy_set(of).map_err(|e| named(e.to_string()))?;
    let mut wanted =
        policy::resolve(system, &set, &Selection::default()).map_err(|e| named(e.to_string()))?;
    for (name, value) in &of.set {
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
        let keys = places.into_iter().filter_map(|at| Key::new(info, at));
        wanted.values.extend(keys.map(|key| (key, value.clone())));
    }
    Plan::new(system, wanted).map_err(|e| named(e.to_string()))
}

/// The set that the keys of a study mean.
fn policy_set(of: &PlannedPolicy) -> Result<PolicySet, SpecError> {
    let mut policies: Vec<PolicySpec> = of.policies.policies().to_vec();
    let mut states = Vec::new();
    if let Some(us) = of.idle_latency_us {
        states.push(format!("ceiling={us}us"));
    }
    if !of.disable_idle.is_empty() {
        states.push(format!("disable={}", of.disable_idle.join(",")));
    }
    if !states.is_empty() {
        policies.push(format!("idle-states[{}]", states.join(",")).parse()?);
    }
    for (limit, cpus) in [(of.cpu_latency_us, ",cpus=all"), (of.system_latency_us, "")] {
        if let Some(us) = limit {
            policies.push(format!("cpu-latency[limit={us}us{cpus}]").parse()?);
        }
    }
    PolicySet::new(policies)
}

/// The right to change settings, if any policy of a plan needs it.
pub(super) fn session(
    system: &System,
    of: &crate::plan::Plan,
) -> Result<Option<Session>, StudyError> {
    for policy in &of.policies {
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
    of: &PlannedPolicy,
) -> Result<Option<Hold>, StudyError> {
    let changes = plan(system, of)?;
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

    use wakepath_system::Root;

    use super::*;
    use crate::plan::{self, Target};

    #[test]
    fn what_only_the_simulator_has_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let system = System::new(Root::at(temp.path()));
        for (key, value) in [
            ("io_uring_iowait", "true"),
            ("io_uring_iowait", "false"),
            ("psd", "'psd'"),
            ("poll", "'poll'"),
        ] {
            let text = format!(
                "name = 'x'\n[[workload]]\nname = 'a'\ncommand = ['true']\n\
                 [[policy]]\nname = 'p'\n{key} = {value}\n"
            );
            let of = plan::Plan::new(&text, "x", Path::new("."), Target::Live).unwrap();
            let error = plan(&system, &of.policies[0]).unwrap_err().to_string();
            assert!(
                error.contains("policy 'p'") && error.contains(key),
                "{error}"
            );
        }
    }
}
