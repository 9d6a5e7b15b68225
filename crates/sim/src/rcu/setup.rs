//! A machine's figures about RCU, compiled.

use wakepath_hardware::Machine;

use crate::core::basics::{CpuId, Cycles, TaskId};

/// RCU on a machine whose CPUs wait for grace periods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RcuSetup {
    soft_interrupt: Cycles,
    thread: GracePeriodThread,
}

/// RCU's grace-period thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GracePeriodThread {
    task: TaskId,
    first_cpu: Option<CpuId>,
    cpu_set: Option<usize>,
}

impl GracePeriodThread {
    /// The thread with this task number, which begins where the machine begins it and keeps to all CPUs that are not isolated.
    pub(crate) fn new(task: TaskId) -> Self {
        Self {
            task,
            first_cpu: None,
            cpu_set: None,
        }
    }

    /// Sets the CPU that the task begins on, where the workload says so.
    pub(crate) fn set_first_cpu(&mut self, cpu: Option<CpuId>) {
        self.first_cpu = cpu;
    }

    /// Sets the number of the set of CPUs that the task keeps to; `None`: all that are not isolated.
    pub(crate) fn set_allowed_cpu_set(&mut self, set: Option<usize>) {
        self.cpu_set = set;
    }

    /// Number of the task, and of its background source.
    pub(crate) fn task(&self) -> TaskId {
        self.task
    }

    /// The CPU that the task begins on if it may run there, where the workload says so.
    pub(crate) fn first_cpu(&self) -> Option<CpuId> {
        self.first_cpu
    }

    /// Number of the set of CPUs that the task keeps to; `None`: all that are not isolated.
    pub(crate) fn allowed_cpu_set(&self) -> Option<usize> {
        self.cpu_set
    }
}

impl RcuSetup {
    /// Compiles RCU's figures for a machine with this grace-period thread. `None`: no CPU waits for grace periods.
    pub(crate) fn new(machine: &Machine, thread: Option<GracePeriodThread>) -> Option<Self> {
        let (rcu, thread) = machine.rcu.as_ref().zip(thread)?;
        Some(Self {
            soft_interrupt: rcu.softirq_kcycles.kilocycles_to_cycles(),
            thread,
        })
    }

    /// Work in cycles of RCU's soft interrupt.
    pub(crate) fn soft_interrupt_work(&self) -> Cycles {
        self.soft_interrupt
    }

    /// The grace-period thread.
    pub(crate) fn grace_period_thread(&self) -> GracePeriodThread {
        self.thread
    }
}
