//! The kernel's background work and threads.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Runs, WorkloadKind};

use crate::core::basics::Cycles;
use crate::task::background_timer::BackgroundTimer;

/// What a kernel thread does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KernelThread {
    /// The thread does a source's background work.
    Worker,
    /// The thread writes back dirty pages (the flusher).
    Flusher,
    /// The thread begins the commits of a file system's transactions (`jbd2`, `xfs-cil`).
    Journal,
    /// The thread goes on with a commit after an interrupt (`kblockd`, `xfs-log`).
    JournalWorker,
    /// The thread changes the clock with this number for schedutil.
    Sugov(usize),
    /// The thread polls for a process's submissions; its index among such threads.
    Submitter(usize),
}

/// A source of background work, compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundSetup {
    pub(super) timer: BackgroundTimer,
    cycles: Cycles,
    /// Whether the work leaves an RCU callback on its CPU.
    pub(super) callbacks: bool,
    as_task: bool,
}

impl BackgroundSetup {
    /// RCU's grace-period thread as a background source, whose timer is that of a scan; `None` without RCU figures.
    fn for_grace_period_thread(machine: &Machine) -> Option<Self> {
        machine.rcu.as_ref().map(|rcu| Self {
            timer: BackgroundTimer::for_rcu_scan(machine),
            cycles: rcu.thread_kcycles.kilocycles_to_cycles(),
            callbacks: false,
            as_task: true,
        })
    }

    /// Whether the source's timer is on the timer wheel.
    pub(crate) fn has_wheel_timer(&self) -> bool {
        self.timer.wheel
    }

    /// Whether another CPU takes the source's timer over while its own CPU sleeps.
    pub(crate) fn has_migratory_timer(&self) -> bool {
        self.timer.migratory
    }

    /// Work in cycles each time that the timer expires.
    pub(crate) fn work_per_timer(&self) -> Cycles {
        self.cycles
    }

    /// Whether a task does the source's work; otherwise the timer's interrupt does.
    pub(crate) fn works_as_task(&self) -> bool {
        self.as_task
    }
}

/// Compiles a machine's background sources beside a workload of this kind; RCU's grace-period thread comes last. Sources that work
/// as tasks are left out if the workload has such tasks itself.
pub(crate) fn compile_background_sources(
    machine: &Machine,
    kind: WorkloadKind,
    workload_has_background: bool,
) -> Vec<BackgroundSetup> {
    machine
        .background
        .iter()
        .filter(|source| source.workload.is_none_or(|workload| workload == kind))
        .filter(|source| !(workload_has_background && source.runs == Runs::Task))
        .map(|source| BackgroundSetup {
            timer: BackgroundTimer::new(machine, source),
            cycles: source.kcycles.kilocycles_to_cycles(),
            callbacks: source.callbacks,
            as_task: source.runs == Runs::Task,
        })
        .chain(BackgroundSetup::for_grace_period_thread(machine))
        .collect()
}
