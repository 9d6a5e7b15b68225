//! Governors of a CPU that goes offline and comes back.

/// What a governor still knows after its CPU was offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HotplugRule {
    /// A governor starts without history after its CPU was offline.
    Restarts,
    /// Everything from before.
    KeepsHistory,
}

impl HotplugRule {
    /// What governors keep under an idle driver, by the driver's name.
    ///
    /// Drivers that enable a CPU's idle states anew each time the CPU comes online reset the governor's data:
    /// `acpi_processor_hotplug()`, `haltpoll_cpu_online()`, and the drivers for POWER (Linux 6.1 and 6.12).
    /// Others, such as `intel_idle` and drivers for device trees, leave the states alone.
    pub(crate) fn for_idle_driver(driver: Option<&str>) -> Self {
        match driver {
            None | Some("acpi_idle" | "haltpoll" | "powernv_idle" | "pseries_idle") => {
                Self::Restarts
            }
            Some(_) => Self::KeepsHistory,
        }
    }
}
