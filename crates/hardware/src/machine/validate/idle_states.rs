//! Checks idle states, latency requests and C1 demotion.

use crate::machine::cluster_states::to_declared_idle_states;
use crate::machine::fault::{Fault, check_names_are_unique, fail_check, is_whole_number};
use crate::machine::{MAX_LATENCY_REQUEST_US, Machine, MachineIdleState, Scope};

/// Checks that idle states form a table; `key` is the table's position for messages.
pub(super) fn check_idle_states_form_table(
    key: &str,
    states: &[MachineIdleState],
) -> Result<(), Fault> {
    if let Err(e) = to_declared_idle_states(states) {
        return fail_check(key, &e.to_string());
    }
    check_names_are_unique(key, states.iter().map(|s| s.name.as_str()))?;
    if states.iter().all(|s| s.disabled) {
        return fail_check(key, "at least one state has to stay enabled");
    }
    if states[0].scope == Scope::Cluster {
        return fail_check(
            key,
            "the shallowest state cannot be one of the whole cluster",
        );
    }
    let falls = |pair: &&[MachineIdleState]| {
        pair[0].target_residency_us.value > pair[1].target_residency_us.value
    };
    if let Some([shallow, deep]) = states.windows(2).find(falls) {
        return fail_check(
            &format!("{key}.{}.target_residency_us", deep.name),
            &format!(
                "states go from shallow to deep, and {} us is less than the {} us of {} before it; correct one of them",
                deep.target_residency_us.value, shallow.target_residency_us.value, shallow.name
            ),
        );
    }
    let mut shallower: Option<&MachineIdleState> = None;
    for state in states.iter().filter(|s| s.power_mw.is_given()) {
        if let Some(s) = shallower.filter(|s| s.power_mw.value < state.power_mw.value) {
            return fail_check(
                &format!("{key}.{}.power_mw", state.name),
                &format!("more than in the shallower {}", s.name),
            );
        }
        shallower = Some(state);
    }
    for state in states.iter().filter(|s| s.transition_mw.is_given()) {
        if state.transition_mw.value < state.power_mw.value {
            return fail_check(
                &format!("{key}.{}.transition_mw", state.name),
                "less than in the state itself",
            );
        }
    }
    for state in states {
        check_deeper_sleep(&format!("{key}.{}", state.name), state)?;
    }
    Ok(())
}

/// Checks what a state becomes by itself: moment and exit belong together, and a deeper exit is no shorter.
fn check_deeper_sleep(key: &str, state: &MachineIdleState) -> Result<(), Fault> {
    let (after, exit) = (&state.deeper_after_us, &state.deeper_exit_us);
    if after.is_given() != exit.is_given() {
        return fail_check(
            key,
            "`deeper_after_us` and `deeper_exit_us` go together: give both or none",
        );
    }
    if state.polling && after.is_given() {
        return fail_check(
            &format!("{key}.deeper_after_us"),
            "a polling CPU does not sleep deeper",
        );
    }
    if exit.is_given() && exit.value < state.true_exit_us.value {
        return fail_check(
            &format!("{key}.deeper_exit_us"),
            "less than `true_exit_us`, the exit before",
        );
    }
    Ok(())
}

/// Checks the idle states of each cluster that overrides some.
pub(in crate::machine) fn check_idle_overrides_of_clusters(machine: &Machine) -> Result<(), Fault> {
    for cluster in &machine.cluster {
        let key = format!("cluster.{}.idle_state", cluster.name);
        let mut seen: Vec<&str> = Vec::new();
        for own in &cluster.idle_state {
            if !machine.idle_state.iter().any(|s| s.name == own.name) {
                let names: Vec<&str> = machine.idle_state.iter().map(|s| &*s.name).collect();
                let known = names.join(", ");
                let message = format!("the machine has no state '{}', but {known}", own.name);
                return Err((key, message));
            }
            if seen.contains(&own.name.as_str()) {
                return Err((key, format!("'{}' appears twice", own.name)));
            }
            seen.push(&own.name);
        }
        if !cluster.idle_state.is_empty() {
            check_idle_states_form_table(&key, &machine.idle_states_on_cluster(cluster))?;
        }
    }
    Ok(())
}

/// Checks that the kernel accepts every request, and that the CPUs exist.
pub(in crate::machine) fn check_latency_requests(machine: &Machine) -> Result<(), Fault> {
    for request in &machine.latency_requests {
        if request.us > MAX_LATENCY_REQUEST_US {
            let message = format!(
                "{} is not between 0 and {MAX_LATENCY_REQUEST_US}",
                request.us
            );
            return fail_check("latency_request.us", &message);
        }
        if let Some(cpu) = request.cpus.iter().find(|cpu| **cpu >= machine.cpus()) {
            let message = format!("CPU {cpu} of a machine with {} CPUs", machine.cpus());
            return fail_check("latency_request.cpus", &message);
        }
    }
    Ok(())
}

/// Checks that C1 demotion leads from deeper states to a shallower one.
pub(super) fn check_c1_demotion(machine: &Machine) -> Result<(), Fault> {
    let Some(demotion) = &machine.c1_demotion else {
        return Ok(());
    };
    let states = &machine.idle_state;
    let to = find_non_polling_state(machine, "c1_demotion.to", &demotion.to)?;
    if states[to].scope == Scope::Cluster {
        return fail_check("c1_demotion.to", "a demoted CPU rests alone");
    }
    for name in &demotion.states {
        if find_non_polling_state(machine, "c1_demotion.states", name)? <= to {
            return fail_check(
                "c1_demotion.states",
                &format!("{name} is not deeper than {}", demotion.to),
            );
        }
    }
    if !is_whole_number(&demotion.wake_ups) {
        return fail_check("c1_demotion.wake_ups", "a whole number of wake-ups");
    }
    Ok(())
}

/// The index of an idle state that does not poll; `key` names it in errors.
fn find_non_polling_state(machine: &Machine, key: &str, name: &str) -> Result<usize, Fault> {
    let mut states = machine.idle_state.iter();
    match states.position(|s| s.name == *name && !s.polling) {
        Some(index) => Ok(index),
        None => fail_check(key, &format!("no sleep state '{name}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_residency_is_named_with_both_states() {
        let mut machine = Machine::find("laptop").unwrap();
        let last = machine.idle_state.len() - 1;
        machine.idle_state[last].target_residency_us.value = 5.0;
        let fault = machine.check().unwrap_err().to_string();
        let [shallow, deep] = [last - 1, last].map(|index| machine.idle_state[index].clone());
        let told = format!(
            "idle_state.{}.target_residency_us: states go from shallow to deep, and 5 us is less than the {} us of {} before it",
            deep.name, shallow.target_residency_us.value, shallow.name
        );
        assert!(fault.contains(&told), "{fault}");
    }
}
