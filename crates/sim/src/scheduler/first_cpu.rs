//! Which CPU a new process or thread begins on.

use std::cmp::Reverse;
use std::ops::Range;

use wakepath_units::Kilohertz;

use crate::core::basics::CpuId;
use crate::scheduler::placement::Placement;
use crate::scheduler::state::Entity;

impl Placement<'_> {
    /// The CPU on which a new task begins, where so many have begun on each CPU: spread over the clusters
    /// by their capacity, but two by two, so that those that talk to each other begin side by side. Ties go
    /// to the cluster that is home, and within a cluster to a core that has none yet.
    pub(crate) fn first_cpu(&self, entity: &Entity, begun: &[usize]) -> CpuId {
        let allowed = |cpu: &CpuId| self.may_use(entity, *cpu);
        let tasks = |cpus: Range<CpuId>| begun[cpus].iter().sum::<usize>();
        let topology = &self.setup.topology;
        let home = self.setup.scheduler.home;
        let clusters = (topology.clusters().iter().enumerate())
            .filter(|(_, cluster)| cluster.cpus().any(|cpu| allowed(&cpu)))
            .min_by_key(|(number, cluster)| {
                let capacity = cluster.capacity() as usize * cluster.cpus().len();
                let pairs = tasks(cluster.cpus()) / 2;
                (
                    pairs * 1_000_000 / capacity.max(1),
                    *number != home,
                    *number,
                )
            });
        let chosen = clusters.map_or(home, |(number, _)| number);
        let cpus = topology.cluster(chosen).cpus();
        cpus.clone()
            .filter(allowed)
            .min_by_key(|cpu| {
                // Where the balancer would take it to: the fastest core first.
                let rank = Reverse(self.rank(chosen, *cpu));
                (begun[*cpu], tasks(self.core(*cpu)), rank, *cpu)
            })
            .unwrap_or(cpus.start)
    }

    /// The highest frequency of a CPU, where the scheduler prefers the fastest cores of its cluster.
    fn rank(&self, cluster: usize, cpu: CpuId) -> Option<Kilohertz> {
        let clocks = self.setup.frequency.cluster(cluster);
        clocks.prefers_cores().then(|| clocks.own_limit(cpu))
    }

    /// The CPU on which a new thread begins, where so many have begun on each CPU: one without a thread, wherever there is one.
    ///
    /// A thread is put into the group with the most idle CPUs, whatever their size, and there on an idle core
    /// (`find_idlest_group()`, `find_idlest_group_cpu()`, Linux 6.1 to 6.12). Threads of rt-app wait for each other before they
    /// begin, so that all of a file's begin at once. Groups of equal CPUs may differ by two tasks, as NUMA nodes may
    /// (`adjust_numa_imbalance()`).
    pub(crate) fn idlest_cpu(&self, entity: &Entity, begun: &[usize]) -> CpuId {
        let free: Vec<bool> = (0..self.cpus.len())
            .map(|cpu| begun[cpu] == 0 && self.may_use(entity, cpu))
            .collect();
        if !free.contains(&true) {
            return self.first_cpu(entity, begun);
        }
        let tasks = |range: Range<CpuId>| begun[range].iter().sum::<usize>();
        let topology = &self.setup.topology;
        let home = self.setup.scheduler.home;
        let clusters = (topology.clusters().iter().enumerate())
            .filter(|(_, cluster)| free[cluster.cpus()].contains(&true))
            .min_by_key(|(number, cluster)| {
                let cpus = cluster.cpus();
                let order = if topology.is_unequal() {
                    let idle = free[cpus].iter().filter(|free| **free).count();
                    self.cpus.len() - idle
                } else {
                    tasks(cpus.clone()) / 2 * 1_000_000 / cpus.len().max(1)
                };
                (order, *number != home, *number)
            });
        let Some((number, cluster)) = clusters else {
            return self.first_cpu(entity, begun);
        };
        (cluster.cpus().filter(|cpu| free[*cpu]))
            .min_by_key(|cpu| {
                // Where the balancer would take it to: the fastest core first.
                let rank = Reverse(self.rank(number, *cpu));
                (tasks(self.core(*cpu)), rank, *cpu)
            })
            .unwrap_or(cluster.cpus().start)
    }

    /// The CPU on which a new process of a job begins.
    ///
    /// A process is put into the cluster with the most idle CPUs (`find_idlest_group()`, Linux 6.1 to 6.12). fio's sleep from
    /// then on until all have been made, so that clusters of unequal CPUs look the same to each of them: home, as long as it
    /// has a CPU without a process.
    pub(crate) fn first_cpu_of_process(&self, entity: &Entity, begun: &[usize]) -> CpuId {
        let home = self.setup.scheduler.home;
        let mut cpus = self.setup.topology.cluster(home).cpus();
        let free = cpus.find(|cpu| begun[*cpu] == 0 && self.may_use(entity, *cpu));
        match free {
            Some(cpu) if self.setup.topology.is_unequal() => cpu,
            _ => self.first_cpu(entity, begun),
        }
    }
}
