//! A machine's figures about package, uncore and power limits, compiled.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Package, PackageSleep, Uncore};

use crate::power::limit_setup::PowerLimitSetup;

/// Figures of the power consumers besides CPUs, and the power limits.
#[derive(Clone, Debug)]
pub(crate) struct PowerSetup {
    pub(super) uncore: Option<Uncore>,
    pub(super) limit: Option<PowerLimitSetup>,
    pub(super) package_sleep: PackageSleep,
    /// Index of the deepest idle state, the only one in which the package can be down.
    pub(super) deepest: usize,
}

impl PowerSetup {
    /// Compiles the power figures of a machine whose CPUs have `idle_states` idle states.
    pub(crate) fn new(machine: &Machine, idle_states: usize) -> Self {
        let package = machine.package.as_ref();
        Self {
            uncore: machine.uncore.clone(),
            limit: PowerLimitSetup::new(machine),
            package_sleep: package.map_or_else(PackageSleep::default, Package::sleep_times),
            deepest: idle_states - 1,
        }
    }

    /// Whether the power of packages is limited.
    pub(crate) fn has_power_limit(&self) -> bool {
        self.limit.is_some()
    }
}
