//! Values that cannot be.

use wakepath_units::TickRate;

use super::{Machine, Scope};

/// The longest time, and the most work, that a figure may state: beyond it sums could overflow.
pub(super) const MAX_FIGURE: f64 = 1e12;

/// Returns the key of the first impossible value, and what is wrong with it.
pub(super) fn check(machine: &Machine) -> Result<(), (String, String)> {
    let bad = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
    if machine.schema != 1 {
        return bad("schema", "this version reads schema 1");
    }
    for (key, figure) in machine.figures() {
        if !(0.0..=MAX_FIGURE).contains(&figure.value) {
            return bad(
                &key,
                &format!("{} is not between 0 and {MAX_FIGURE:e}", figure.value),
            );
        }
    }
    let hz = machine.hz.value;
    if hz.fract() != 0.0 || TickRate::new(hz as u32).is_none() {
        return bad("hz", "a tick rate is a whole number from 1 to 6250");
    }
    if machine.cluster.is_empty() {
        return bad("cluster", "a machine has at least one cluster");
    }
    for c in &machine.cluster {
        let key = |name: &str| format!("cluster.{}.{name}", c.name);
        if c.cpus == 0 || c.cpus > 4096 {
            return bad(&key("cpus"), "a cluster has 1 to 4096 CPUs");
        }
        if c.capacity == 0 || c.capacity > 1024 {
            return bad(&key("capacity"), "a capacity is between 1 and 1024");
        }
        if c.opps.is_empty() || c.opps[0].khz == 0 {
            return bad(
                &key("opps"),
                "at least one operating point, each above 0 kHz",
            );
        }
        if c.opps.windows(2).any(|w| w[0].khz >= w[1].khz) {
            return bad(
                &key("opps"),
                "operating points go from slow to fast, each once",
            );
        }
    }
    if let Err(e) = machine.declared_idle_states() {
        return bad("idle_state", &e.to_string());
    }
    if machine.idle_state[0].scope == Scope::Cluster {
        return bad(
            "idle_state",
            "the shallowest state cannot be one of the whole cluster",
        );
    }
    if machine
        .idle_state
        .windows(2)
        .any(|w| w[0].target_residency_us.value > w[1].target_residency_us.value)
    {
        return bad(
            "idle_state",
            "states go from shallow to deep: target residency must not fall",
        );
    }
    let home = &machine.scheduler.home.cluster;
    if !machine.cluster.iter().any(|c| c.name == *home) {
        return bad(
            "scheduler.home.cluster",
            &format!("no cluster is named '{home}'"),
        );
    }
    let io = &machine.io_path;
    let shares = io.submission_share.value + io.interrupt_share.value + io.resume_share.value;
    if (shares - 1.0).abs() > 1e-6 {
        return bad(
            "io_path",
            &format!("the three shares add up to {shares}, not to 1"),
        );
    }
    if let Some(cpu) = io.completion.cpu.filter(|cpu| *cpu >= machine.cpus()) {
        return bad(
            "io_path.completion.cpu",
            &format!("CPU {cpu} of a machine with {} CPUs", machine.cpus()),
        );
    }
    machine.drive.check()?;
    if let Some(b) = machine.background.iter().find(|b| b.every_ms.value <= 0.0) {
        return bad(
            &format!("background.{}.every_ms", b.name),
            "a period is above 0",
        );
    }
    Ok(())
}
