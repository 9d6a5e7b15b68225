//! Choice of the CPU on which a new process or thread begins.

use std::cmp::Reverse;
use std::ops::Range;

use wakepath_units::Kilohertz;

use crate::core::basics::CpuId;
use crate::scheduler::placement::Placement;
use crate::scheduler::state::Entity;

/// Number of tasks that have begun on a range of CPUs.
fn count_begun_tasks(begun: &[usize], cpus: Range<CpuId>) -> usize {
    begun[cpus].iter().sum()
}

impl Placement<'_> {
    /// The CPU for a new task, with `begun` tasks begun on each CPU: spread over the clusters by capacity, but two by
    /// two, so that tasks talking to each other begin side by side. Ties go to the home cluster, and within a cluster
    /// to a core without tasks.
    pub(crate) fn first_cpu_of_task(self, entity: &Entity, begun: &[usize]) -> CpuId {
        let topology = &self.setup.topology;
        let home = self.setup.scheduler.home;
        let clusters = (topology.clusters().iter().enumerate())
            .filter(|(_, cluster)| cluster.cpus().any(|cpu| self.may_use(entity, cpu)))
            .min_by_key(|(number, cluster)| {
                let capacity = cluster.capacity() as usize * cluster.cpus().len();
                let pairs = count_begun_tasks(begun, cluster.cpus()) / 2;
                (
                    pairs * 1_000_000 / capacity.max(1),
                    *number != home,
                    *number,
                )
            });
        let chosen = clusters.map_or(home, |(number, _)| number);
        let cpus = topology.cluster(chosen).cpus();
        cpus.clone()
            .filter(|cpu| self.may_use(entity, *cpu))
            .min_by_key(|cpu| {
                // The fastest core comes first, since the balancer would move the task there.
                let rank = Reverse(self.preferred_core_frequency(chosen, *cpu));
                (
                    begun[*cpu],
                    count_begun_tasks(begun, self.cpus_on_same_core(*cpu)),
                    rank,
                    *cpu,
                )
            })
            .unwrap_or(cpus.start)
    }

    /// A CPU's highest frequency, where the scheduler prefers the fastest cores in a cluster.
    fn preferred_core_frequency(self, cluster: usize, cpu: CpuId) -> Option<Kilohertz> {
        let clocks = self.setup.frequency.cluster(cluster);
        clocks
            .scheduler_prefers_fast_cores()
            .then(|| clocks.highest_frequency_of_cpu(cpu))
    }

    /// The CPU for a new thread, with `begun` threads begun on each CPU: one without a thread, if any.
    ///
    /// A thread is put into the group with the most idle CPUs, whatever their size, and there on an idle core
    /// (`find_idlest_group()`, `find_idlest_group_cpu()`, Linux 6.1 to 6.12). rt-app's threads wait for each other
    /// before they begin, so that all threads in a file begin at once. Groups with equal CPUs may differ by two tasks,
    /// as NUMA nodes may (`adjust_numa_imbalance()`).
    pub(crate) fn first_cpu_of_thread(self, entity: &Entity, begun: &[usize]) -> CpuId {
        let free: Vec<bool> = (0..self.cpus.len())
            .map(|cpu| begun[cpu] == 0 && self.may_use(entity, cpu))
            .collect();
        if !free.contains(&true) {
            return self.first_cpu_of_task(entity, begun);
        }
        let topology = &self.setup.topology;
        let home = self.setup.scheduler.home;
        let clusters = (topology.clusters().iter().enumerate())
            .filter(|(_, cluster)| free[cluster.cpus()].contains(&true))
            .min_by_key(|(number, cluster)| {
                let cpus = cluster.cpus();
                let order = if topology.has_unequal_capacities() {
                    let idle = free[cpus].iter().filter(|free| **free).count();
                    self.cpus.len() - idle
                } else {
                    count_begun_tasks(begun, cpus.clone()) / 2 * 1_000_000 / cpus.len().max(1)
                };
                (order, *number != home, *number)
            });
        let Some((number, cluster)) = clusters else {
            return self.first_cpu_of_task(entity, begun);
        };
        (cluster.cpus().filter(|cpu| free[*cpu]))
            .min_by_key(|cpu| {
                // The fastest core comes first, since the balancer would move the task there.
                let rank = Reverse(self.preferred_core_frequency(number, *cpu));
                (
                    count_begun_tasks(begun, self.cpus_on_same_core(*cpu)),
                    rank,
                    *cpu,
                )
            })
            .unwrap_or(cluster.cpus().start)
    }

    /// Chooses the CPU for a job's new process.
    ///
    /// A process is put into the cluster with the most idle CPUs (`find_idlest_group()`, Linux 6.1 to 6.12). fio's
    /// processes sleep from then on until all have been made, so that unequal clusters look the same to each process:
    /// home, while a home CPU has no process.
    pub(crate) fn first_cpu_of_process(self, entity: &Entity, begun: &[usize]) -> CpuId {
        let home = self.setup.scheduler.home;
        let mut cpus = self.setup.topology.cluster(home).cpus();
        let free = cpus.find(|cpu| begun[*cpu] == 0 && self.may_use(entity, *cpu));
        match free {
            Some(cpu) if self.setup.topology.has_unequal_capacities() => cpu,
            _ => self.first_cpu_of_task(entity, begun),
        }
    }
}
