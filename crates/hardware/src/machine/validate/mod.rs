//! Checks a machine for impossible values.

mod cluster;
mod drive;
mod idle_states;

use wakepath_units::TickRate;

use self::cluster::check_cluster;
use self::drive::check_drive_figures_fit_together;
pub(super) use self::drive::check_drive_ranges_and_fit;
use self::idle_states::{
    check_c1_demotion, check_idle_overrides_of_clusters, check_idle_states_form_table,
    check_latency_requests,
};
use super::fault::{Fault, check_names_are_unique, fail_check, is_whole_number};
use super::{
    Background, Instances, IoPath, Machine, MachineError, Platform, PowerLimit, Runs, Uncore,
};

impl Machine {
    /// Checks a changed machine for impossible values.
    ///
    /// # Errors
    /// The first impossible value, with its key.
    pub fn check(&self) -> Result<(), MachineError> {
        self.check_with_origin_in_errors(&self.name)
    }

    /// As [`Self::check`]; `origin` names the machine's file in errors.
    pub(super) fn check_with_origin_in_errors(&self, origin: &str) -> Result<(), MachineError> {
        check_machine(self).map_err(|(key, message)| MachineError::Invalid {
            origin: origin.to_owned(),
            key,
            message,
        })
    }
}

fn check_machine(machine: &Machine) -> Result<(), Fault> {
    if machine.schema != 1 {
        return fail_check("schema", "this version reads schema 1");
    }
    if machine.title.contains(char::is_control) {
        return fail_check("title", "a title has no control characters");
    }
    machine.check_figure_ranges()?;
    check_tick_rate_and_irq_accounting(machine)?;
    check_clusters_and_idle_states(machine)?;
    check_io_path_and_isolation(machine)?;
    check_demotion_platform_and_limits(machine)?;
    refuse_smt_with_emulator(machine)?;
    check_stolen_time(machine)?;
    check_first_and_other_drives(machine)?;
    check_background_work(machine)
}

/// Checks the kernel's configuration.
fn check_tick_rate_and_irq_accounting(machine: &Machine) -> Result<(), Fault> {
    if !is_whole_number(&machine.hz) || TickRate::new(machine.hz.value as u32).is_none() {
        return fail_check("hz", "a tick rate is a whole number from 1 to 6250");
    }
    if !is_whole_number(&machine.irq_time_accounting) {
        return fail_check("irq_time_accounting", "1 if the kernel has it, else 0");
    }
    Ok(())
}

/// Checks clusters and idle states of a machine.
fn check_clusters_and_idle_states(machine: &Machine) -> Result<(), Fault> {
    if machine.cluster.is_empty() {
        return fail_check("cluster", "a machine has at least one cluster");
    }
    check_names_are_unique("cluster", machine.cluster.iter().map(|c| c.name.as_str()))?;
    machine.cluster.iter().try_for_each(check_cluster)?;
    check_idle_states_form_table("idle_state", &machine.idle_state)?;
    check_idle_overrides_of_clusters(machine)?;
    check_latency_requests(machine)?;
    let home = &machine.scheduler.home.cluster;
    if !machine.cluster.iter().any(|c| c.name == *home) {
        return fail_check(
            "scheduler.home.cluster",
            &format!("no cluster is named '{home}'"),
        );
    }
    Ok(())
}

/// Checks a machine's path of an I/O, page cache and isolated CPUs.
fn check_io_path_and_isolation(machine: &Machine) -> Result<(), Fault> {
    check_shares_of_io_work(&machine.io_path)?;
    let cpus = machine.cpus();
    if let Some(cpu) = machine.io_path.completion.cpu.filter(|cpu| *cpu >= cpus) {
        return fail_check(
            "io_path.completion.cpu",
            &format!("CPU {cpu} of a machine with {cpus} CPUs"),
        );
    }
    if let Some((key, message)) = machine.page_cache.first_invalid_key_and_reason() {
        return fail_check(&format!("page_cache.{key}"), message);
    }
    if let Some((key, message)) = machine.isolation.first_invalid_key_and_reason(cpus) {
        return fail_check(&format!("isolation.{key}"), &message);
    }
    check_queues_and_coalescing(&machine.io_path)
}

/// Checks that the shares of an I/O's work add up, and that parts of shares fit into them.
fn check_shares_of_io_work(io: &IoPath) -> Result<(), Fault> {
    let shares = io.submission_share.value + io.interrupt_share.value + io.resume_share.value;
    if (shares - 1.0).abs() > 1e-6 {
        return fail_check(
            "io_path",
            &format!("the three shares add up to {shares}, not to 1"),
        );
    }
    for (key, part, whole_key, whole) in [
        (
            "deactivation_share",
            &io.deactivation_share,
            "submission_share",
            &io.submission_share,
        ),
        (
            "doorbell_share",
            &io.doorbell_share,
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
            let message = format!(
                "{} is more than {whole_key}, which it is a part of",
                part.value
            );
            return fail_check(&format!("io_path.{key}"), &message);
        }
    }
    Ok(())
}

fn check_queues_and_coalescing(io: &IoPath) -> Result<(), Fault> {
    let completion = &io.completion;
    if completion.queues.is_some_and(|n| n == 0 || n > 65_535) {
        return fail_check("io_path.completion.queues", "a drive has 1 to 65535 queues");
    }
    if completion.poll_queues.is_some_and(|n| n > 65_535) {
        return fail_check(
            "io_path.completion.poll_queues",
            "a drive has up to 65535 polled queues",
        );
    }
    let together = &completion.coalesce;
    if !is_whole_number(together) {
        return fail_check(
            "io_path.completion.coalesce",
            "an aggregation threshold is a whole number",
        );
    }
    let when_empty = completion.when_empty.value;
    if ![0.0, 1.0].contains(&when_empty) {
        return fail_check("io_path.completion.when_empty", "it is 0 or 1");
    }
    if when_empty > 0.0 && together.value > 1.0 {
        return fail_check(
            "io_path.completion.when_empty",
            "a queue interrupts once it is empty, or after `coalesce` completions: give one of both",
        );
    }
    if together.value > 1.0 && completion.coalesce_us.value <= 0.0 {
        return fail_check(
            "io_path.completion.coalesce_us",
            "completions that are collected need a time after which they are told",
        );
    }
    Ok(())
}

/// Checks what the hardware of a package decides: demotion, the uncore's clock, power limits.
fn check_demotion_platform_and_limits(machine: &Machine) -> Result<(), Fault> {
    check_c1_demotion(machine)?;
    if let Some((key, message)) = machine
        .platform
        .as_ref()
        .and_then(Platform::first_invalid_key_and_reason)
    {
        return fail_check(&format!("platform.{key}"), message);
    }
    if let Some(uncore) = &machine.uncore {
        check_uncore_clock_and_voltage(uncore)?;
    }
    match &machine.power_limit {
        Some(limit) => check_power_limit_of_machine(machine, limit),
        None => Ok(()),
    }
}

fn check_uncore_clock_and_voltage(uncore: &Uncore) -> Result<(), Fault> {
    if uncore.min_mhz.value <= 0.0 || uncore.min_mhz.value > uncore.max_mhz.value {
        return fail_check("uncore.min_mhz", "above 0 and at most max_mhz");
    }
    if uncore.lowest_uv.value > uncore.highest_uv.value {
        return fail_check(
            "uncore.lowest_uv",
            "the lowest clock has the lowest voltage",
        );
    }
    Ok(())
}

fn check_power_limit_of_machine(machine: &Machine, limit: &PowerLimit) -> Result<(), Fault> {
    if let Some((key, message)) = limit.first_invalid_key_and_reason(machine.cluster.len()) {
        return fail_check(&format!("power_limit.{key}"), message);
    }
    if let Some(c) = machine.cluster.iter().find(|c| !c.clock_slot_us.is_given()) {
        let key = format!("cluster.{}.clock_slot_us", c.name);
        return fail_check(&key, "power limits need it");
    }
    Ok(())
}

fn refuse_smt_with_emulator(machine: &Machine) -> Result<(), Fault> {
    let mut clusters = machine.cluster.iter();
    let with_threads = clusters.find(|c| c.smt_speedup.is_given() || c.smt_poll_loss.is_given());
    if let (Some(_), Some(c)) = (&machine.emulator, with_threads) {
        return fail_check(
            &format!("cluster.{}.smt_speedup", c.name),
            "an emulator's CPUs take turns: none slows another one down",
        );
    }
    Ok(())
}

fn check_stolen_time(machine: &Machine) -> Result<(), Fault> {
    let Some(stolen) = &machine.stolen else {
        return Ok(());
    };
    if machine.emulator.is_some() {
        return fail_check(
            "stolen",
            "an emulator's CPUs take turns, and no host takes them besides: leave out [stolen] or [emulator]",
        );
    }
    stolen.check_share()
}

/// Checks the drives. The ranges of the first one are checked with those of the machine.
fn check_first_and_other_drives(machine: &Machine) -> Result<(), Fault> {
    check_drive_figures_fit_together(&machine.drive)?;
    for drive in &machine.other_drives {
        check_drive_ranges_and_fit(drive)
            .map_err(|(key, message)| (format!("other_{key}"), message))?;
    }
    Ok(())
}

fn check_background_work(machine: &Machine) -> Result<(), Fault> {
    if let Some(b) = find_background_work_where(machine, |b| b.every_ms.value <= 0.0) {
        return fail_check(
            &format!("background.{}.every_ms", b.name),
            "a period is above 0",
        );
    }
    let without_task = find_background_work_where(machine, |b| {
        b.callbacks && (b.runs != Runs::Task || machine.rcu.is_none())
    });
    if let Some(b) = without_task {
        return fail_check(
            &format!("background.{}.callbacks", b.name),
            "callbacks are left by a `task`, on a machine with `[rcu]`",
        );
    }
    let misplaced = find_background_work_where(machine, |b| {
        b.instances == Instances::PerMachine && b.runs != Runs::Task
    });
    if let Some(b) = misplaced {
        return fail_check(
            &format!("background.{}.runs", b.name),
            "work that there is once for the machine is a `task`",
        );
    }
    Ok(())
}

fn find_background_work_where(
    machine: &Machine,
    is_wanted: impl Fn(&Background) -> bool,
) -> Option<&Background> {
    machine.background.iter().find(|work| is_wanted(work))
}
