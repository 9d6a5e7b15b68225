//! What becomes of a machine's figures of the scheduler.

use wakepath_hardware::Machine;

use crate::core::basics::Cycles;
use crate::scheduler::state::{Entity, Tunables};

/// The scheduler of a machine.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerSetup {
    /// The cluster in which jobs begin.
    pub(super) home: usize,
    /// By CPU: only tasks that are bound there; empty if there are no such CPUs.
    pub(super) isolated: Vec<bool>,
    /// Time that an inter-processor interrupt takes, in ns.
    pub(super) ipi: u64,
    /// Extra work for a task after it has moved to another core.
    pub(super) migration_cycles: Cycles,
    /// Work of a task on a CPU where another task ran last.
    pub(super) switch_cycles: Cycles,
    pub(super) tunables: Tunables,
}

impl SchedulerSetup {
    /// The scheduler of a machine; `isolated` says of each CPU whether it is kept free, if any is.
    pub(crate) fn new(machine: &Machine, isolated: Vec<bool>) -> Self {
        let scheduler = &machine.scheduler;
        let mut clusters = machine.cluster.iter();
        Self {
            home: (clusters.position(|c| c.name == scheduler.home.cluster)).unwrap_or(0),
            isolated,
            ipi: scheduler.ipi_us.micros_to_time().0,
            migration_cycles: scheduler.migration_kcycles.kilocycles_to_cycles(),
            switch_cycles: scheduler.switch_kcycles.kilocycles_to_cycles(),
            tunables: Tunables::new(machine.cpus()),
        }
    }

    /// A task wakes up on a run queue of this least run time.
    #[inline(always)]
    pub(crate) fn place(&self, task: &mut Entity, least_vruntime: u64) {
        task.place(least_vruntime, &self.tunables);
    }

    /// The cluster in which jobs begin.
    pub(crate) fn home(&self) -> usize {
        self.home
    }
}
