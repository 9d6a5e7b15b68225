//! The power limits of packages, and what the hardware knows of its own power.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::PowerLimit;
use wakepath_units::Microwatts;

use crate::state::cpu_power::CpuPower;

/// The power limits of a machine.
#[derive(Clone, Debug)]
pub(crate) struct PowerLimitSetup {
    pub(crate) of: PowerLimit,
    /// By cluster: what a CPU draws.
    pub(crate) cpus: Vec<CpuPower>,
    /// By cluster: what it draws besides its CPUs while it is up and while it is down.
    pub(crate) besides_cpus: Vec<[Microwatts; 2]>,
    /// What each cluster's part of the package draws while the package is not down.
    pub(crate) package_share: Microwatts,
}

impl PowerLimitSetup {
    /// Of a machine, if it has limits.
    ///
    /// What the package draws even while it is down counts towards no limit: in the built-in machines that is the rest
    /// of the system.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let of = machine.power_limit.clone()?;
        let clusters = &machine.cluster;
        let active = machine.package.as_ref().map_or(0, |p| p.active_power().0);
        Some(Self {
            of,
            cpus: clusters.iter().map(|c| CpuPower::new(machine, c)).collect(),
            besides_cpus: clusters
                .iter()
                .map(|c| [c.on_power(), c.off_power()])
                .collect(),
            package_share: Microwatts(active / clusters.len().max(1) as u64),
        })
    }
}
