//! A machine's CPUs, by cluster, core and clock.

use std::ops::Range;

use wakepath_hardware::Machine;

use crate::core::basics::CpuId;

/// A cluster: equal CPUs that can be powered down together.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    first_cpu: CpuId,
    cpus: usize,
    capacity: u32,
    threads_per_core: usize,
    cpus_per_clock: usize,
    first_clock: usize,
}

impl Cluster {
    /// The CPUs.
    #[inline]
    pub(crate) fn cpus(&self) -> Range<CpuId> {
        self.first_cpu..self.first_cpu + self.cpus
    }

    /// A CPU's capacity at the highest frequency; the machine's biggest CPU has 1024.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    pub(crate) fn threads_per_core(&self) -> usize {
        self.threads_per_core
    }

    /// A CPU's core number within the cluster.
    #[inline]
    pub(crate) fn core_number(&self, cpu: CpuId) -> usize {
        (cpu - self.first_cpu) / self.threads_per_core
    }

    /// The hardware threads on `cpu`'s core, including `cpu`.
    #[inline]
    pub(crate) fn cpus_on_same_core(&self, cpu: CpuId) -> Range<CpuId> {
        let first = self.first_cpu + self.core_number(cpu) * self.threads_per_core;
        first..(first + self.threads_per_core).min(self.cpus().end)
    }

    /// The CPUs of each of the cluster's clocks.
    pub(crate) fn cpus_by_clock(&self) -> impl Iterator<Item = Range<CpuId>> {
        let firsts = self.cpus().step_by(self.cpus_per_clock);
        firsts.map(|first| first..first + self.cpus_per_clock)
    }

    /// Number of a CPU's clock, counted over the whole machine.
    pub(crate) fn clock_number(&self, cpu: CpuId) -> usize {
        self.first_clock + (cpu - self.first_cpu) / self.cpus_per_clock
    }
}

/// A machine's CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    clusters: Vec<Cluster>,
    unequal: bool,
}

impl Topology {
    pub(crate) fn new(machine: &Machine) -> Self {
        let (mut first_cpu, mut first_clock) = (0, 0);
        let mut clusters = Vec::with_capacity(machine.cluster.len());
        for cluster in &machine.cluster {
            let cpus_per_clock = cluster.cpus_per_clock();
            clusters.push(Cluster {
                first_cpu,
                cpus: cluster.cpus,
                capacity: cluster.capacity,
                threads_per_core: cluster.threads_per_core,
                cpus_per_clock,
                first_clock,
            });
            first_cpu += cluster.cpus;
            first_clock += cluster.cpus.div_ceil(cpus_per_clock);
        }
        let unequal = clusters
            .windows(2)
            .any(|pair| pair[0].capacity != pair[1].capacity);
        Self { clusters, unequal }
    }

    #[inline]
    pub(crate) fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    #[inline(always)]
    pub(crate) fn cluster(&self, number: usize) -> &Cluster {
        &self.clusters[number]
    }

    /// The hardware threads on `cpu`'s core in the given cluster, including `cpu`.
    #[inline]
    pub(crate) fn cpus_on_same_core(&self, cluster: usize, cpu: CpuId) -> Range<CpuId> {
        self.clusters[cluster].cpus_on_same_core(cpu)
    }

    /// Number of the machine's CPUs.
    pub(crate) fn cpu_count(&self) -> usize {
        self.clusters.last().map_or(0, |last| last.cpus().end)
    }

    /// Whether the clusters differ in capacity.
    #[inline(always)]
    pub(crate) fn has_unequal_capacities(&self) -> bool {
        self.unequal
    }
}
