//! A machine's figures about RCU, compiled.

use wakepath_hardware::Machine;

use crate::core::basics::{CpuId, Cycles, TaskId};

/// RCU on a machine whose CPUs wait for grace periods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RcuSetup {
    soft_interrupt: Cycles,
    pub(super) thread: TaskId,
    first_cpu: Option<CpuId>,
    cpu_set: Option<usize>,
}

impl RcuSetup {
    /// Compiles RCU's figures; `thread` is the grace-period task, which begins on `first_cpu` and keeps to the CPUs of set
    /// `cpu_set`. `None`: no CPU waits for grace periods.
    pub(crate) fn new(
        machine: &Machine,
        thread: Option<TaskId>,
        first_cpu: Option<CpuId>,
        cpu_set: Option<usize>,
    ) -> Option<Self> {
        let (rcu, thread) = machine.rcu.as_ref().zip(thread)?;
        Some(Self {
            soft_interrupt: rcu.softirq_kcycles.kilocycles_to_cycles(),
            thread,
            first_cpu,
            cpu_set,
        })
    }

    /// Work in cycles of RCU's soft interrupt.
    pub(crate) fn soft_interrupt_work(&self) -> Cycles {
        self.soft_interrupt
    }

    /// The CPU that the grace-period task begins on, where the workload says so.
    pub(crate) fn first_cpu(&self) -> Option<CpuId> {
        self.first_cpu
    }

    /// Number of the set of CPUs that the grace-period task keeps to; `None`: all that are not isolated.
    pub(crate) fn cpu_set(&self) -> Option<usize> {
        self.cpu_set
    }

    /// The grace-period task, with the same number as its background source.
    pub(crate) fn grace_period_task(&self) -> TaskId {
        self.thread
    }
}
