//! A machine's figures about the scheduler, compiled.

use wakepath_hardware::Machine;

use crate::core::basics::Cycles;
use crate::scheduler::state::{Entity, Tunables};

/// A machine's scheduler figures, compiled.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerSetup {
    /// Number of the cluster in which jobs begin.
    pub(super) home: usize,
    /// By CPU, whether it is isolated and runs only tasks bound there; empty if no CPU is.
    pub(super) isolated: Vec<bool>,
    /// Time that an inter-processor interrupt takes, in ns.
    pub(super) ipi: u64,
    /// Extra work in cycles of a task after it has moved to another core.
    pub(super) migration_cycles: Cycles,
    /// Extra work in cycles of a task on a CPU where another task ran last.
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

    /// Sets the virtual run time of a task that wakes up on a run queue with the given least virtual run time.
    #[inline(always)]
    pub(crate) fn place_woken_task(&self, task: &mut Entity, least_vruntime: u64) {
        task.place_after_sleep(least_vruntime, &self.tunables);
    }

    /// Number of the cluster in which jobs begin.
    pub(crate) fn home_cluster(&self) -> usize {
        self.home
    }
}
