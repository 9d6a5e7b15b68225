//! Options in the kernel's configuration, independent of version.

use wakepath_units::TickRate;

/// Options in the kernel's configuration that power policies depend on. `None`: unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelConfig {
    /// Ticks per second (`CONFIG_HZ`).
    pub hz: Option<TickRate>,
    /// Interrupt time counts as utilisation (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub irq_time: Option<bool>,
}
