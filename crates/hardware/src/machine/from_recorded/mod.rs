//! Turns a recorded system into a machine. Unrecorded figures come from a similar built-in machine, and are marked as
//! assumed.

mod clusters;
mod idle_states;
mod powers;
mod record;

use wakepath_units::KernelVersion;

use self::clusters::{infer_core_kinds_of_hybrid, make_equal_clusters_per_socket};
use self::idle_states::{estimate_package_power_up_time, make_machine_idle_states};
use self::powers::{
    copy_powers_and_voltages, multiply_assumed_package_power, power_at_rest_of_captured_machine,
    published_or_lent_power_at_rest, recorded_or_usual_intel_power_limit,
    scale_lent_package_power_to_sockets, use_package_power_of_family,
    use_recorded_uncore_clock_range,
};
pub use self::record::Captured;
use self::record::{RecordAndLender, SystemKind, missing_record_error, require_recorded_idle};
use super::builtin::load_builtin_machine;
use super::{Cluster, Figure, Machine, MachineError};
use crate::nearest::Lender;
use crate::recorded::{RecordedPolicy, RecordedSystem};

/// Name of the drive of a recorded system.
const ASSUMED_DRIVE: &str = "NVMe SSD (assumed)";

impl Machine {
    /// A recorded system as a machine.
    ///
    /// Idle states, frequency range, base frequency and transition latency are recorded. Sockets, cores, threads,
    /// turbo limits and the uncore's range come from the system's [`Processor`](crate::processor::Processor). All else is assumed. Exit times are
    /// half of the declared latency; on servers, without the package's part. C6 on Sapphire and Emerald Rapids, and
    /// AMD's states, use measurements from similar processors. Other figures come from a similar built-in machine,
    /// per socket. Hybrid processors get a cluster for each core type, told apart by the highest frequency of their
    /// policies ([`Machine::split_cluster_by_core_kind`]).
    ///
    /// # Errors
    /// The record lacks the idle states or the frequencies.
    pub fn from_recorded(system: &RecordedSystem) -> Result<Self, MachineError> {
        let idle = require_recorded_idle(system)?;
        let kind = SystemKind::guess_by_family_and_cpus(system, idle);
        Self::from_record_and_lender(system, kind, kind.default_lender_name())
    }

    /// Makes a machine of a captured system: as [`Machine::from_recorded`], with the figures that another machine
    /// lends.
    ///
    /// # Errors
    /// As [`Machine::from_recorded`].
    pub fn from_captured(
        system: &RecordedSystem,
        captured: &Captured<'_>,
    ) -> Result<Self, MachineError> {
        let lender = captured.lender;
        let mut machine =
            Self::from_record_and_lender(system, SystemKind::from_lender(lender), lender.machine)?;
        let template = load_builtin_machine(lender.machine)?.copy_with_assumed_figures()?;
        let like = cluster_with_core_or_first(&template, captured.cores.first());
        copy_powers_and_voltages(&mut machine.cluster[0], like);
        if let Some(core) = captured.cores.first() {
            machine.cluster[0].core.clone_from(core);
        }
        multiply_assumed_package_power(&mut machine, captured.sockets);
        let record = RecordAndLender {
            system,
            idle: require_recorded_idle(system)?,
            kind: SystemKind::from_lender(lender),
            lender: &template,
        };
        // A captured machine is one cluster whatever the number of sockets.
        use_package_power_of_family(&mut machine, &record, captured.sockets.max(1));
        machine.platform = power_at_rest_of_captured_machine(system, captured, &template);
        if !lender.power {
            machine.remove_cpu_and_package_power(&lender.why);
        }
        Ok(machine)
    }

    /// Gives each cluster its first CPU's core name and the lender's powers for such a core. `cores`: core names by
    /// CPU.
    ///
    /// # Errors
    /// The lender is no built-in machine.
    pub fn take_core_names_and_lent_powers(
        &mut self,
        cores: &[String],
        lender: &Lender,
    ) -> Result<(), MachineError> {
        let template = load_builtin_machine(lender.machine)?.copy_with_assumed_figures()?;
        let mut first = 0;
        for cluster in &mut self.cluster {
            let core = cores.get(first);
            first += cluster.cpus;
            let Some(core) = core else { continue };
            cluster.core.clone_from(core);
            let lends = template.cluster.iter().find(|like| like.core == *core);
            if let Some(like) = lends.filter(|_| lender.power) {
                copy_powers_and_voltages(cluster, like);
                for state in &mut cluster.idle_state {
                    (state.power_mw, state.transition_mw) = <(Figure, Figure)>::default();
                }
            }
        }
        Ok(())
    }

    /// Makes a machine of a record; `lender` is the built-in machine with figures for unrecorded ones.
    fn from_record_and_lender(
        system: &RecordedSystem,
        kind: SystemKind,
        lender: &str,
    ) -> Result<Self, MachineError> {
        let idle = require_recorded_idle(system)?;
        let fastest = system.frequency.iter().rev().max_by_key(|p| p.max);
        let policy = fastest.ok_or_else(|| missing_record_error(system, "frequencies"))?;
        let record = RecordAndLender {
            system,
            idle,
            kind,
            lender: &load_builtin_machine(lender)?.copy_with_assumed_figures()?,
        };
        let mut machine = assemble_machine(&record, policy);
        add_package_and_platform_powers(&mut machine, &record);
        if let Some(kinds) = infer_core_kinds_of_hybrid(system) {
            // The lender's power is per thread.
            let (first, like) = (&mut machine.cluster[0], &record.lender.cluster[0]);
            first.threads_per_core = like.threads_per_core;
            first.smt_speedup.clone_from(&like.smt_speedup);
            first.smt_poll_loss.clone_from(&like.smt_poll_loss);
            machine.split_cluster_by_core_kind(&kinds)?;
        }
        machine.check()?;
        Ok(machine)
    }
}

/// Puts a machine together: what is recorded, and the lender's figures for the rest.
fn assemble_machine(record: &RecordAndLender<'_>, policy: &RecordedPolicy) -> Machine {
    let (system, template) = (record.system, record.lender);
    let cluster = make_equal_clusters_per_socket(record, policy);
    let mut scheduler = template.scheduler.clone();
    scheduler.home.assumed = match cluster.len() {
        1 => "there is only one".to_owned(),
        _ => "the sockets are alike; a task starts on the first".to_owned(),
    };
    scheduler.home.cluster.clone_from(&cluster[0].name);
    let package_exit =
        (record.kind == SystemKind::Server).then(|| estimate_package_power_up_time(record));
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
        idle_governors: Vec::new(),
        frequency_governors: Vec::new(),
        prediction: None,
        calibrated_on: None,
        hz: assume_tick_rate_by_distribution(&system.kernel),
        irq_time_accounting: assume_irq_accounting_by_distribution(&system.kernel),
        cluster,
        idle_state: make_machine_idle_states(record, package_us),
        scheduler,
        ..template.clone()
    };
    drop_demotion_of_unknown_states(&mut machine);
    // The record names no drive, and the lender's has a name of its own.
    ASSUMED_DRIVE.clone_into(&mut machine.drive.name);
    if let (Some(package), Some(exit)) = (&mut machine.package, package_exit) {
        package.exit_us = exit;
    }
    machine
}

/// Removes the lender's C1 demotion if it names states that the machine does not have.
fn drop_demotion_of_unknown_states(machine: &mut Machine) {
    let states = &machine.idle_state;
    machine.c1_demotion = machine.c1_demotion.take().filter(|demotion| {
        let mut named = demotion.states.iter().chain([&demotion.to]);
        named.all(|name| states.iter().any(|s| s.name == *name && !s.polling))
    });
}

/// Adds powers of package and uncore, power at rest, and power limits.
fn add_package_and_platform_powers(machine: &mut Machine, record: &RecordAndLender<'_>) {
    scale_lent_package_power_to_sockets(machine, record.lender);
    if let (Some(uncore), Some(processor)) = (&mut machine.uncore, record.known_processor()) {
        use_recorded_uncore_clock_range(uncore, processor);
    }
    use_package_power_of_family(machine, record, machine.cluster.len());
    machine.platform = published_or_lent_power_at_rest(record, machine.cluster.len());
    let processor = record
        .known_processor()
        .filter(|_| record.kind != SystemKind::Amd);
    machine.power_limit =
        processor.and_then(|p| recorded_or_usual_intel_power_limit(p, record.kind));
}

/// The lender's cluster with this core, or else its first cluster.
fn cluster_with_core_or_first<'a>(machine: &'a Machine, core: Option<&String>) -> &'a Cluster {
    let mut clusters = machine.cluster.iter();
    let same = core.and_then(|core| clusters.find(|cluster| cluster.core == *core));
    same.unwrap_or(&machine.cluster[0])
}

fn assume_tick_rate_by_distribution(kernel_release: &str) -> Figure {
    if kernel_release.contains(".fc") {
        Figure::assumed(1000.0, "CONFIG_HZ of Fedora's kernels")
    } else {
        Figure::assumed(250.0, "CONFIG_HZ of most distributions")
    }
}

fn assume_irq_accounting_by_distribution(kernel_release: &str) -> Figure {
    if kernel_release.contains(".fc") || kernel_release.contains(".el") {
        Figure::assumed(1.0, "CONFIG_IRQ_TIME_ACCOUNTING of Fedora's kernels")
    } else {
        Figure::assumed(0.0, "CONFIG_IRQ_TIME_ACCOUNTING of Debian's kernels")
    }
}

#[cfg(test)]
mod tests;
