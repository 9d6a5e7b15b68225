//! What cpufreq is told, and what interrupts count as in it.

/// Why the scheduler calls cpufreq.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// A task wakes up from waiting for I/O.
    pub(in crate::frequency) iowait: bool,
    /// The CPU reports about itself; another one does otherwise.
    pub(in crate::frequency) local: bool,
}

impl Report {
    /// A task wakes up from waiting for I/O.
    #[inline]
    pub(crate) fn end_of_wait_for_io(local: bool) -> Self {
        Self {
            iowait: true,
            local,
        }
    }
}

/// What the time in interrupts counts as in a CPU's utilisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterruptTime {
    /// Nobody asks for utilisation.
    Unused,
    /// Run time of the task that is interrupted, and of nothing when the CPU was idle.
    OfTask,
    /// Busy time of the CPU (`effective_cpu_util()` with `CONFIG_IRQ_TIME_ACCOUNTING`).
    OfCpu,
}
