//! Background work: timers and threads of the kernel.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Runs, WorkloadKind};

use crate::core::basics::Cycles;
use crate::task::background_timer::BackgroundTimer;

/// A thread of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KernelThread {
    /// It does the background work of a source.
    Worker,
    /// It writes back dirty pages.
    Flusher,
    /// It changes the clock of this number for schedutil.
    Sugov(usize),
}

/// Background work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundSetup {
    pub(super) timer: BackgroundTimer,
    cycles: Cycles,
    /// It leaves an RCU callback on its CPU.
    pub(super) callbacks: bool,
    as_task: bool,
}

impl BackgroundSetup {
    /// The thread of RCU's grace periods, which sleeps before it scans.
    fn grace_periods(machine: &Machine) -> Option<Self> {
        machine.rcu.as_ref().map(|rcu| Self {
            timer: BackgroundTimer::rcu_scan(machine),
            cycles: rcu.thread_kcycles.kilocycles_to_cycles(),
            callbacks: false,
            as_task: true,
        })
    }

    /// Whether a timer of the timer wheel starts it.
    pub(crate) fn is_on_wheel(&self) -> bool {
        self.timer.wheel
    }

    /// Whether another CPU takes its timer over while its own CPU sleeps.
    pub(crate) fn migrates(&self) -> bool {
        self.timer.migratory
    }

    /// The work of each time.
    pub(crate) fn cycles(&self) -> Cycles {
        self.cycles
    }

    /// Whether a task does the work; otherwise the timer's interrupt does.
    pub(crate) fn is_task(&self) -> bool {
        self.as_task
    }
}

/// Background work of a machine beside a workload of this kind, with the thread of grace periods as the last.
pub(crate) fn background(machine: &Machine, kind: WorkloadKind) -> Vec<BackgroundSetup> {
    machine
        .background
        .iter()
        .filter(|source| source.workload.is_none_or(|workload| workload == kind))
        .map(|source| BackgroundSetup {
            timer: BackgroundTimer::new(machine, source),
            cycles: source.kcycles.kilocycles_to_cycles(),
            callbacks: source.callbacks,
            as_task: source.runs == Runs::Task,
        })
        .chain(BackgroundSetup::grace_periods(machine))
        .collect()
}
