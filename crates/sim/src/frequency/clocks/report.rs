//! Reports to cpufreq, and how interrupts count there.

/// Why the scheduler calls cpufreq.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// Whether a task wakes up from waiting for I/O.
    pub(in crate::frequency) iowait: bool,
    /// Whether the CPU reports about itself; otherwise another CPU does.
    pub(in crate::frequency) local: bool,
}

impl Report {
    /// A report that a task wakes up from waiting for I/O; `local`: on the reporting CPU itself.
    #[inline]
    pub(crate) fn end_of_wait_for_io(local: bool) -> Self {
        Self {
            iowait: true,
            local,
        }
    }
}

/// How interrupt time counts in a CPU's utilisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterruptTime {
    /// Nobody asks for utilisation.
    Unused,
    /// Run time for the interrupted task, and for nothing when the CPU was idle.
    OfTask,
    /// Busy time for the CPU (`effective_cpu_util()` with `CONFIG_IRQ_TIME_ACCOUNTING`).
    OfCpu,
}
