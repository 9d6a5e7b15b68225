//! Finds impossible values.

use wakepath_units::TickRate;

use super::{
    Background, Cluster, Figure, Machine, MachineIdleState, Per, Platform, Runs, Scope, Uncore,
    cluster_states, latency,
};

/// Key of an impossible value, and an explanation.
pub(super) type Fault = (String, String);

fn fault<T>(key: &str, message: &str) -> Result<T, Fault> {
    Err((key.to_owned(), message.to_owned()))
}

/// The first impossible value.
pub(super) fn check(machine: &Machine) -> Result<(), Fault> {
    if machine.schema != 1 {
        return fault("schema", "this version reads schema 1");
    }
    if machine.title.contains(char::is_control) {
        return fault("title", "a title has no control characters");
    }
    machine.check_ranges()?;
    let hz = machine.hz.value;
    if !is_whole(&machine.hz) || TickRate::new(hz as u32).is_none() {
        return fault("hz", "a tick rate is a whole number from 1 to 6250");
    }
    if !is_whole(&machine.irq_time_accounting) {
        return fault("irq_time_accounting", "1 if the kernel has it, else 0");
    }
    if machine.cluster.is_empty() {
        return fault("cluster", "a machine has at least one cluster");
    }
    unique("cluster", machine.cluster.iter().map(|c| c.name.as_str()))?;
    machine.cluster.iter().try_for_each(cluster)?;
    idle_table("idle_state", &machine.idle_state)?;
    cluster_states::check(machine)?;
    latency::check(machine)?;
    let home = &machine.scheduler.home.cluster;
    if !machine.cluster.iter().any(|c| c.name == *home) {
        return fault(
            "scheduler.home.cluster",
            &format!("no cluster is named '{home}'"),
        );
    }
    let io = &machine.io_path;
    let shares = io.submission_share.value + io.interrupt_share.value + io.resume_share.value;
    if (shares - 1.0).abs() > 1e-6 {
        return fault(
            "io_path",
            &format!("the three shares add up to {shares}, not to 1"),
        );
    }
    for (key, part, of, whole) in [
        (
            "deactivation_share",
            &io.deactivation_share,
            "submission_share",
            &io.submission_share,
        ),
        (
            "reactivation_share",
            &io.reactivation_share,
            "interrupt_share",
            &io.interrupt_share,
        ),
        (
            "switch_share",
            &io.switch_share,
            "resume_share",
            &io.resume_share,
        ),
    ] {
        if part.value > whole.value {
            let message = format!("{} is more than {of}, which it is a part of", part.value);
            return fault(&format!("io_path.{key}"), &message);
        }
    }
    if let Some(cpu) = io.completion.cpu.filter(|cpu| *cpu >= machine.cpus()) {
        return fault(
            "io_path.completion.cpu",
            &format!("CPU {cpu} of a machine with {} CPUs", machine.cpus()),
        );
    }
    if let Some((key, message)) = machine.page_cache.fault() {
        return fault(&format!("page_cache.{key}"), message);
    }
    if let Some((key, message)) = machine.isolation.fault(machine.cpus()) {
        return fault(&format!("isolation.{key}"), &message);
    }
    completion(machine)?;
    demotion(machine)?;
    if let Some((key, message)) = machine.platform.as_ref().and_then(Platform::fault) {
        return fault(&format!("platform.{key}"), message);
    }
    if let Some(of_machine) = &machine.uncore {
        uncore(of_machine)?;
    }
    if let Some(limit) = &machine.power_limit {
        if let Some((key, message)) = limit.fault(machine.cluster.len()) {
            return fault(&format!("power_limit.{key}"), message);
        }
        if let Some(c) = machine.cluster.iter().find(|c| !c.clock_slot_us.is_given()) {
            let key = format!("cluster.{}.clock_slot_us", c.name);
            return fault(&key, "power limits need it");
        }
    }
    let shares = |c: &&Cluster| c.smt_speedup.is_given() || c.smt_poll_loss.is_given();
    if machine.emulator.is_some()
        && let Some(c) = machine.cluster.iter().find(shares)
    {
        let key = format!("cluster.{}.smt_speedup", c.name);
        return fault(
            &key,
            "an emulator's CPUs take turns: none slows another one down",
        );
    }
    machine.drive.check()?;
    for drive in &machine.other_drives {
        drive
            .check()
            .map_err(|(key, message)| (format!("other_{key}"), message))?;
    }
    if let Some(b) = machine.background.iter().find(|b| b.every_ms.value <= 0.0) {
        return fault(
            &format!("background.{}.every_ms", b.name),
            "a period is above 0",
        );
    }
    let callbacks =
        |b: &&Background| b.callbacks && (b.runs != Runs::Task || machine.rcu.is_none());
    if let Some(b) = machine.background.iter().find(callbacks) {
        return fault(
            &format!("background.{}.callbacks", b.name),
            "callbacks are left by a `task`, on a machine with `[rcu]`",
        );
    }
    let misplaced = |b: &&Background| b.per == Per::Machine && b.runs != Runs::Task;
    if let Some(b) = machine.background.iter().find(misplaced) {
        return fault(
            &format!("background.{}.runs", b.name),
            "work that there is once for the machine is a `task`",
        );
    }
    Ok(())
}

fn is_whole(figure: &Figure) -> bool {
    figure.value.fract() == 0.0
}

/// Names are parts of keys, hence unique.
fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return fault(what, &format!("'{name}' appears twice"));
        }
        seen.push(name);
    }
    Ok(())
}

fn uncore(uncore: &Uncore) -> Result<(), Fault> {
    let bad = |name: &str, message: &str| fault(&format!("uncore.{name}"), message);
    if uncore.min_mhz.value <= 0.0 || uncore.min_mhz.value > uncore.max_mhz.value {
        return bad("min_mhz", "above 0 and at most max_mhz");
    }
    if uncore.lowest_uv.value > uncore.highest_uv.value {
        return bad("lowest_uv", "the lowest clock has the lowest voltage");
    }
    Ok(())
}

fn cluster(c: &Cluster) -> Result<(), Fault> {
    let bad = |name: &str, message: &str| fault(&format!("cluster.{}.{name}", c.name), message);
    if c.cpus == 0 || c.cpus > 4096 {
        return bad("cpus", "a cluster has 1 to 4096 CPUs");
    }
    let divides = |part: usize, whole: usize| part > 0 && whole.is_multiple_of(part);
    if !divides(c.threads_per_core, c.cpus) {
        return bad("threads_per_core", "the CPUs do not make whole cores");
    }
    let speedup = c.smt_speedup.value;
    if c.smt_speedup.is_given() && !(1.0..=c.threads_per_core as f64).contains(&speedup) {
        return bad(
            "smt_speedup",
            "between 1 and the number of threads of a core",
        );
    }
    if c.smt_poll_loss.value >= 1.0 {
        return bad("smt_poll_loss", "a share below 1");
    }
    if let Some(clock) = c.clock_cpus
        && (!divides(clock, c.cpus) || !divides(c.threads_per_core, clock))
    {
        return bad(
            "clock_cpus",
            "a clock drives whole cores, and each clock equally many",
        );
    }
    if c.capacity == 0 || c.capacity > 1024 {
        return bad("capacity", "a capacity is between 1 and 1024");
    }
    if c.opps.is_empty() || c.opps[0].khz == 0 {
        return bad("opps", "at least one operating point, each above 0 kHz");
    }
    if c.opps.windows(2).any(|w| w[0].khz >= w[1].khz) {
        return bad("opps", "operating points go from slow to fast, each once");
    }
    if c.opps.iter().any(|o| f64::from(o.uv) > 1e7) {
        return bad("opps", "a voltage above 10 V");
    }
    if c.lowest_uv.is_given() != c.highest_uv.is_given() {
        return bad("lowest_uv", "give both lowest_uv and highest_uv, or none");
    }
    if c.lowest_uv.value > c.highest_uv.value {
        return bad("lowest_uv", "the slowest point has the lowest voltage");
    }
    if c.dynamic_power_uw_per_mhz_v2.value > 0.0 && c.opps.iter().any(|o| c.volts(o).is_none()) {
        return bad(
            "dynamic_power_uw_per_mhz_v2",
            "needs voltages: uv in every operating point, or lowest_uv and highest_uv",
        );
    }
    if c.cluster_off_mw.value > c.cluster_on_mw.value {
        return bad("cluster_off_mw", "more than while it is on");
    }
    clock(c)
}

/// Checks the hardware's handling of frequency requests.
fn clock(c: &Cluster) -> Result<(), Fault> {
    let bad = |name: &str, message: &str| fault(&format!("cluster.{}.{name}", c.name), message);
    if c.base_mhz.is_given() {
        let (lowest, highest) = (c.opps[0].khz, c.max_frequency().0);
        let base = c.base_mhz.value * 1e3;
        if !(f64::from(lowest)..=f64::from(highest)).contains(&base) {
            return bad("base_mhz", "between the lowest and the highest frequency");
        }
        if f64::from(highest) >= 25.6e6 {
            return bad("opps", "P-states count in steps of 100 MHz up to 25.5 GHz");
        }
    }
    if c.turbo
        .windows(2)
        .any(|w| w[0].active_cores >= w[1].active_cores || w[0].khz < w[1].khz)
        || c.turbo
            .iter()
            .any(|t| t.active_cores == 0 || t.khz < c.opps[0].khz)
    {
        return bad(
            "turbo",
            "limits go from few to many active cores, each at most the one before and an operating point",
        );
    }
    let hwp = [&c.hwp_ramp_ms, &c.hwp_full_at_percent];
    let has_whole_hwp = hwp.iter().all(|f| f.is_given()) && c.base_mhz.is_given();
    if hwp.iter().any(|f| f.is_given()) && !has_whole_hwp {
        return bad(
            "hwp_ramp_ms",
            "HWP takes base_mhz, hwp_ramp_ms and hwp_full_at_percent together",
        );
    }
    if let Some(cppc) = &c.cppc
        && let Some((key, message)) = cppc.fault(c.cpus / c.threads_per_core)
    {
        return bad(&format!("cppc.{key}"), message);
    }
    let controller = hwp[0].is_given() || c.cppc.is_some();
    if (!c.turbo.is_empty() || controller) && !c.clock_slot_us.is_given() {
        return bad("clock_slot_us", "turbo limits, HWP and CPPC need it");
    }
    Ok(())
}

fn completion(machine: &Machine) -> Result<(), Fault> {
    let completion = &machine.io_path.completion;
    if completion.queues.is_some_and(|n| n == 0 || n > 65_535) {
        return fault("io_path.completion.queues", "a drive has 1 to 65535 queues");
    }
    let together = &completion.coalesce;
    if !is_whole(together) {
        return fault(
            "io_path.completion.coalesce",
            "an aggregation threshold is a whole number",
        );
    }
    if together.value > 1.0 && completion.coalesce_us.value <= 0.0 {
        return fault(
            "io_path.completion.coalesce_us",
            "completions that are collected need a time after which they are told",
        );
    }
    Ok(())
}

fn demotion(machine: &Machine) -> Result<(), Fault> {
    let Some(demotion) = &machine.c1_demotion else {
        return Ok(());
    };
    let states = &machine.idle_state;
    let index = |key: &str, name: &str| {
        let found = states.iter().position(|s| s.name == *name && !s.polling);
        found.map_or_else(|| fault(key, &format!("no sleep state '{name}'")), Ok)
    };
    let to = index("c1_demotion.to", &demotion.to)?;
    if states[to].scope == Scope::Cluster {
        return fault("c1_demotion.to", "a demoted CPU rests alone");
    }
    for name in &demotion.states {
        if index("c1_demotion.states", name)? <= to {
            return fault(
                "c1_demotion.states",
                &format!("{name} is not deeper than {}", demotion.to),
            );
        }
    }
    if !is_whole(&demotion.wake_ups) {
        return fault("c1_demotion.wake_ups", "a whole number of wake-ups");
    }
    Ok(())
}

/// Checks that states form a table; `key` is the table's position for messages.
pub(super) fn idle_table(key: &str, states: &[MachineIdleState]) -> Result<(), Fault> {
    if let Err(e) = cluster_states::declared(states) {
        return fault(key, &e.to_string());
    }
    unique(key, states.iter().map(|s| s.name.as_str()))?;
    if states.iter().all(|s| s.disabled) {
        return fault(key, "at least one state has to stay enabled");
    }
    if states[0].scope == Scope::Cluster {
        return fault(
            key,
            "the shallowest state cannot be one of the whole cluster",
        );
    }
    if states
        .windows(2)
        .any(|w| w[0].target_residency_us.value > w[1].target_residency_us.value)
    {
        return fault(
            key,
            "states go from shallow to deep: target residency must not fall",
        );
    }
    let mut shallower: Option<&MachineIdleState> = None;
    for state in states.iter().filter(|s| s.power_mw.is_given()) {
        if let Some(s) = shallower.filter(|s| s.power_mw.value < state.power_mw.value) {
            return fault(
                &format!("{key}.{}.power_mw", state.name),
                &format!("more than in the shallower {}", s.name),
            );
        }
        shallower = Some(state);
    }
    for state in states.iter().filter(|s| s.transition_mw.is_given()) {
        if state.transition_mw.value < state.power_mw.value {
            return fault(
                &format!("{key}.{}.transition_mw", state.name),
                "less than in the state itself",
            );
        }
    }
    Ok(())
}
