//! Packages' power limits, and the hardware's knowledge about its power.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::PowerLimit;
use wakepath_units::{Kilohertz, Microwatts};

use crate::power::cpu_power::CpuPower;

/// A machine's power limits.
#[derive(Clone, Debug)]
pub(crate) struct PowerLimitSetup {
    pub(super) limits: PowerLimit,
    /// Powers of a CPU, by cluster.
    pub(super) cpus: Vec<CpuPower>,
    /// Power of a cluster besides its CPUs, while up and while down, by cluster.
    pub(super) besides_cpus: Vec<[Microwatts; 2]>,
    /// Each cluster's share in the package's power while the package is up.
    pub(super) package_share: Microwatts,
    /// Highest power of a cluster with no CPU running, in microwatts, by cluster.
    most_when_idle: Vec<u64>,
    /// The long-term limit, and the longest time between two sums even where the limit cannot bind yet, in ns.
    pl1: u64,
    longest: u64,
}

/// How often energy is summed up at least in the window of the long-term limit PL1.
const TIMES_PER_WINDOW: u64 = 64;

impl PowerLimitSetup {
    /// Compiles a machine's power limits; `None` without any.
    ///
    /// The package's power while down counts towards no limit: in the built-in machines that is the rest of the
    /// system.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let limits = machine.power_limit.clone()?;
        let clusters = &machine.cluster;
        let active = machine.package.as_ref().map_or(0, |p| p.active_power().0);
        let package_share = active / clusters.len().max(1) as u64;
        let uncore = (machine.uncore.as_ref()).map_or(0, |uncore| {
            uncore
                .power_at_clock(uncore.clock_within_limits(Kilohertz(u32::MAX)))
                .0
        });
        let cpus: Vec<CpuPower> = (clusters.iter())
            .map(|c| CpuPower::new(machine, c))
            .collect();
        let (pl1, window) = limits.limits().next()?;
        Some(Self {
            limits,
            pl1: pl1.0,
            longest: window.0 / TIMES_PER_WINDOW,
            most_when_idle: (clusters.iter().zip(&cpus))
                .map(|(c, cpu)| {
                    let besides =
                        c.power_when_up().max(c.power_when_down()).0 + uncore + package_share;
                    c.cpus as u64 * cpu.highest_power_while_not_running().0 + besides
                })
                .collect(),
            cpus,
            besides_cpus: clusters
                .iter()
                .map(|c| [c.power_when_up(), c.power_when_down()])
                .collect(),
            package_share: Microwatts(package_share),
        })
    }

    /// Whether a cluster with `awake_cpus` CPUs awake stays within PL1 at any clock, so that no sum is needed `unsettled`
    /// ns after the last. The average cannot rise above the limit meanwhile.
    pub(crate) fn limit_cannot_bind(
        &self,
        cluster: usize,
        awake_cpus: usize,
        unsettled: u64,
    ) -> bool {
        let fastest = self.cpus[cluster].running.last().map_or(0, |power| power.0);
        self.limits.clusters == 1
            && unsettled < self.longest
            && awake_cpus as u64 * fastest + self.most_when_idle[cluster] <= self.pl1
    }
}
