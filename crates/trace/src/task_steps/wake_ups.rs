//! Causes of wake-ups.

/// Cause of a task's wake-up.
#[derive(Clone, Copy, Debug)]
pub(super) enum WakeCause {
    /// The end of an own request: so many are in flight still.
    Io(u32),
    /// A timer that was set for this time in ns.
    Timer(u64),
    /// The task with this number.
    Task(u32),
    /// An interrupt on the CPU with this number, which no timer and no own request raised.
    Arrival(u32),
    Outside,
}

/// A wake-up of a task that has not run since.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingWake {
    pub(super) cause: WakeCause,
    pub(super) time: u64,
}
