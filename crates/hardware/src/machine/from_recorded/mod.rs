//! Turns a recorded system into a machine. Unrecorded figures come from a similar built-in machine, and are marked as
//! assumed.

mod clusters;
mod idle_states;
mod powers;
mod record;

use wakepath_units::KernelVersion;

use self::clusters::{clusters, core_kinds};
use self::idle_states::{idle_states, package_exit};
use self::powers::{
    captured_platform, limit_uncore, measured_package, package_of_sockets, platform, power_limit,
    scale_package, take_power,
};
pub use self::record::Captured;
use self::record::{Kind, Record, missing_record, recorded_idle};
use super::builtin::find_builtin;
use super::{Cluster, Figure, Machine, MachineError};
use crate::nearest::Lender;
use crate::recorded::{RecordedPolicy, RecordedSystem};

/// Name of a recorded system's drive.
const ASSUMED_DRIVE: &str = "NVMe SSD (assumed)";

impl Machine {
    /// A recorded system as a machine.
    ///
    /// Idle states, frequency range, base frequency and transition latency are recorded. Sockets, cores, threads,
    /// turbo limits and the uncore's range come from the system's [`Processor`](crate::processor::Processor). All else is assumed. Exit times are
    /// half of the declared latency; on servers, without the package's part. C6 on Sapphire and Emerald Rapids, and
    /// AMD's states, use measurements from similar processors. Other figures come from a similar built-in machine,
    /// per socket. Hybrid processors get a cluster for each core type, told apart by the highest frequency of their
    /// policies ([`Machine::split_by_kind`]).
    ///
    /// # Errors
    /// The record lacks the idle states or the frequencies.
    pub fn from_recorded(system: &RecordedSystem) -> Result<Self, MachineError> {
        let idle = recorded_idle(system)?;
        let kind = Kind::for_system(system, idle);
        Self::from_record(system, kind, kind.template())
    }

    /// A captured machine: as [`Machine::from_recorded`], with the figures that another machine lends.
    ///
    /// # Errors
    /// As [`Machine::from_recorded`].
    pub fn from_captured(
        system: &RecordedSystem,
        captured: &Captured<'_>,
    ) -> Result<Self, MachineError> {
        let lender = captured.lender;
        let mut machine = Self::from_record(system, Kind::from_lender(lender), lender.machine)?;
        let template = find_builtin(lender.machine)?.borrowed()?;
        let like = cluster_with_core(&template, captured.cores.first());
        take_power(&mut machine.cluster[0], like);
        if let Some(core) = captured.cores.first() {
            machine.cluster[0].core.clone_from(core);
        }
        package_of_sockets(&mut machine, captured.sockets);
        machine.platform = captured_platform(system, captured, &template);
        if !lender.power {
            machine.remove_power(&lender.why);
        }
        Ok(machine)
    }

    /// Gives each cluster its first CPU's core name and the lender's powers for such a core. `cores`: core names by
    /// CPU.
    ///
    /// # Errors
    /// The lender is no built-in machine.
    pub fn take_cores(&mut self, cores: &[String], lender: &Lender) -> Result<(), MachineError> {
        let template = find_builtin(lender.machine)?.borrowed()?;
        let mut first = 0;
        for cluster in &mut self.cluster {
            let core = cores.get(first);
            first += cluster.cpus;
            let Some(core) = core else { continue };
            cluster.core.clone_from(core);
            let lends = template.cluster.iter().find(|like| like.core == *core);
            if let Some(like) = lends.filter(|_| lender.power) {
                take_power(cluster, like);
                for state in &mut cluster.idle_state {
                    (state.power_mw, state.transition_mw) = <(Figure, Figure)>::default();
                }
            }
        }
        Ok(())
    }

    /// `lender`: the built-in machine with figures for unrecorded ones.
    fn from_record(
        system: &RecordedSystem,
        kind: Kind,
        lender: &str,
    ) -> Result<Self, MachineError> {
        let idle = recorded_idle(system)?;
        let fastest = system.frequency.iter().rev().max_by_key(|p| p.max);
        let policy = fastest.ok_or_else(|| missing_record(system, "frequencies"))?;
        let record = Record {
            system,
            idle,
            kind,
            lender: &find_builtin(lender)?.borrowed()?,
        };
        let mut machine = assemble(&record, policy);
        add_powers(&mut machine, &record);
        if let Some(kinds) = core_kinds(system) {
            // The lender's power is per thread.
            let (first, like) = (&mut machine.cluster[0], &record.lender.cluster[0]);
            first.threads_per_core = like.threads_per_core;
            first.smt_speedup.clone_from(&like.smt_speedup);
            first.smt_poll_loss.clone_from(&like.smt_poll_loss);
            machine.split_by_kind(&kinds)?;
        }
        machine.check()?;
        Ok(machine)
    }
}

/// What is recorded, and the lender's figures for the rest.
fn assemble(record: &Record<'_>, policy: &RecordedPolicy) -> Machine {
    let (system, template) = (record.system, record.lender);
    let cluster = clusters(record, policy);
    let mut scheduler = template.scheduler.clone();
    scheduler.home.assumed = match cluster.len() {
        1 => "there is only one".to_owned(),
        _ => "the sockets are alike; a task starts on the first".to_owned(),
    };
    scheduler.home.cluster.clone_from(&cluster[0].name);
    let package_exit = (record.kind == Kind::Server).then(|| package_exit(record));
    let package_us = package_exit.as_ref().map_or(0.0, |exit| exit.value);
    let mut machine = Machine {
        schema: template.schema,
        name: system.name.clone(),
        title: format!(
            "{} as recorded under Linux {}; what its hardware really takes is assumed",
            system.cpu_model, system.kernel
        ),
        // `None` if the policies of this kernel are unknown.
        kernel: KernelVersion::from_release_name(&system.kernel).ok(),
        kernel_from: Some(format!("the record: Linux {}", system.kernel)),
        runs: None,
        no_power: None,
        prediction: None,
        calibrated_on: None,
        hz: tick_rate(&system.kernel),
        irq_time_accounting: irq_time_accounting(&system.kernel),
        cluster,
        idle_state: idle_states(record, package_us),
        scheduler,
        ..template.clone()
    };
    drop_unknown_demotion(&mut machine);
    // The record names no drive, and the lender's has a name of its own.
    ASSUMED_DRIVE.clone_into(&mut machine.drive.name);
    if let (Some(package), Some(exit)) = (&mut machine.package, package_exit) {
        package.exit_us = exit;
    }
    machine
}

/// Drops the lender's demotion if it names states that the machine does not have.
fn drop_unknown_demotion(machine: &mut Machine) {
    let states = &machine.idle_state;
    machine.c1_demotion = machine.c1_demotion.take().filter(|demotion| {
        let mut named = demotion.states.iter().chain([&demotion.to]);
        named.all(|name| states.iter().any(|s| s.name == *name && !s.polling))
    });
}

/// Package, uncore, platform and power limits.
fn add_powers(machine: &mut Machine, record: &Record<'_>) {
    scale_package(machine, record.lender);
    if let (Some(uncore), Some(processor)) = (&mut machine.uncore, record.processor()) {
        limit_uncore(uncore, processor);
    }
    measured_package(machine, record);
    machine.platform = platform(record, machine.cluster.len());
    let processor = record.processor().filter(|_| record.kind != Kind::Amd);
    machine.power_limit = processor.and_then(|p| power_limit(p, record.kind));
}

/// The cluster with this core, else the first cluster.
fn cluster_with_core<'a>(machine: &'a Machine, core: Option<&String>) -> &'a Cluster {
    let mut clusters = machine.cluster.iter();
    let same = core.and_then(|core| clusters.find(|cluster| cluster.core == *core));
    same.unwrap_or(&machine.cluster[0])
}

fn tick_rate(kernel: &str) -> Figure {
    if kernel.contains(".fc") {
        Figure::assumed(1000.0, "CONFIG_HZ of Fedora's kernels")
    } else {
        Figure::assumed(250.0, "CONFIG_HZ of most distributions")
    }
}

fn irq_time_accounting(kernel: &str) -> Figure {
    if kernel.contains(".fc") || kernel.contains(".el") {
        Figure::assumed(1.0, "CONFIG_IRQ_TIME_ACCOUNTING of Fedora's kernels")
    } else {
        Figure::assumed(0.0, "CONFIG_IRQ_TIME_ACCOUNTING of Debian's kernels")
    }
}

#[cfg(test)]
mod tests;
