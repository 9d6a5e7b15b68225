//! What a policy of a study changes on this machine.

use wakepath_live::setting;
use wakepath_live::{Hold, Key, LiveError, Plan, Selection, Session, System, policy};

use crate::file::{StudyError, unknown};
use crate::plan::PlannedPolicy;

/// A refusal of the settings layer.
pub(super) fn error(e: &LiveError) -> StudyError {
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
    let specs = of.policies.policies();
    let mut policies: Vec<String> = specs.iter().map(ToString::to_string).collect();
    if let Some(us) = of.idle_latency_us {
        policies.push(format!("idle-states[ceiling={us}us]"));
    }
    if let Some(us) = of.cpu_latency_us {
        policies.push(format!("cpu-latency[limit={us}us]"));
    }
    if let Some(us) = of.system_latency_us {
        policies.push(format!("system-latency[limit={us}us]"));
    }
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let mut wanted = policy::resolve(system, &policies, &Selection::default())
        .map_err(|e| named(e.to_string()))?;
    for state in &of.disable_idle {
        let mut known: Vec<String> = Vec::new();
        let before = wanted.values.len();
        for cpu in system.cpus() {
            for info in system.idle_states(cpu) {
                if info.name == *state {
                    let at = wakepath_live::At::IdleState {
                        cpu,
                        state: info.index,
                    };
                    let key = setting::find("idle-state-off").and_then(|s| Key::new(s, at));
                    wanted.values.extend(key.map(|k| (k, "1".to_owned())));
                }
                if !known.contains(&info.name) {
                    known.push(info.name);
                }
            }
        }
        if wanted.values.len() == before {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(named(unknown("idle state of this machine", state, &known)));
        }
    }
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

    use wakepath_live::Root;

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
