//! How a virtual machine's host takes CPUs, compiled.

use wakepath_hardware::Machine;

/// Mean times of a host that takes CPUs, in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct StolenSetup {
    /// Mean time that a CPU runs until the host takes it.
    pub(super) mean_gap: f64,
    /// Mean time until the host gives the CPU back.
    pub(super) mean_length: f64,
}

impl StolenSetup {
    /// The times of a machine's host; `None` if it takes nothing.
    pub(super) fn new(machine: &Machine) -> Option<Self> {
        let stolen = machine.stolen.as_ref()?;
        (stolen.share_of_busy_time() > 0.0).then(|| Self {
            mean_gap: 1e9 / stolen.per_s.value,
            mean_length: stolen.mean_us.value * 1e3,
        })
    }
}
