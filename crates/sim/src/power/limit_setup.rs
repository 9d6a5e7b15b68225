//! The power limits of packages, and what the hardware knows of its own power.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::PowerLimit;
use wakepath_units::{Kilohertz, Microwatts};

use crate::power::cpu_power::CpuPower;

/// The power limits of a machine.
#[derive(Clone, Debug)]
pub(crate) struct PowerLimitSetup {
    pub(super) limits: PowerLimit,
    /// By cluster: what a CPU draws.
    pub(super) cpus: Vec<CpuPower>,
    /// By cluster: what it draws besides its CPUs while it is up and while it is down.
    pub(super) besides_cpus: Vec<[Microwatts; 2]>,
    /// What each cluster's part of the package draws while the package is not down.
    pub(super) package_share: Microwatts,
    /// By cluster: the most that it can draw with no CPU running.
    most_when_idle: Vec<u64>,
    /// The long-term limit, and the time after which what was drawn is added up even where that cannot matter yet, in ns.
    pl1: u64,
    longest: u64,
}

/// What was drawn is added up at least so many times in the window of PL1.
const TIMES_PER_WINDOW: u64 = 64;

impl PowerLimitSetup {
    /// Of a machine, if it has limits.
    ///
    /// What the package draws even while it is down counts towards no limit: in the built-in machines that is the rest
    /// of the system.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let limits = machine.power_limit.clone()?;
        let clusters = &machine.cluster;
        let active = machine.package.as_ref().map_or(0, |p| p.active_power().0);
        let package_share = active / clusters.len().max(1) as u64;
        let uncore = (machine.uncore.as_ref()).map_or(0, |uncore| {
            uncore.power(uncore.clock(Kilohertz(u32::MAX))).0
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
                    let besides = c.on_power().max(c.off_power()).0 + uncore + package_share;
                    c.cpus as u64 * cpu.most_when_idle().0 + besides
                })
                .collect(),
            cpus,
            besides_cpus: clusters
                .iter()
                .map(|c| [c.on_power(), c.off_power()])
                .collect(),
            package_share: Microwatts(package_share),
        })
    }

    /// Whether a cluster with so many CPUs awake stays within PL1 at any clock, so that what it draws need not be added up
    /// `unsettled` ns after that was done last. The average cannot rise above the limit meanwhile.
    pub(crate) fn cannot_bind(&self, cluster: usize, awake: usize, unsettled: u64) -> bool {
        let fastest = self.cpus[cluster].running.last().map_or(0, |power| power.0);
        self.limits.clusters == 1
            && unsettled < self.longest
            && awake as u64 * fastest + self.most_when_idle[cluster] <= self.pl1
    }
}
