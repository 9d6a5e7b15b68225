//! Numbers and names that every room uses.

/// Cycles of the biggest core, the unit of all CPU work in the simulator.
pub(crate) type Cycles = u64;

/// The share of a core that a thread has for itself.
pub(crate) const FULL_SHARE: u64 = 1024;

/// No such point in time.
pub(crate) const NEVER: u64 = u64::MAX;

pub(crate) type CpuId = usize;
pub(crate) type TaskId = usize;
pub(crate) type RequestId = usize;

/// Work that an interrupt brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The drive has finished a request.
    Completion(RequestId),
    /// The scheduler's tick.
    Tick,
    /// A timer of this CPU expired.
    Timer(Timer),
    /// A tick has found work for RCU.
    Rcu,
    /// schedutil wants its thread to change the clock of this number.
    Frequency(usize),
    /// Another CPU has queued a task here.
    Reschedule,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Background work of this index.
    Background(usize),
    /// The end of a task's sleep.
    Task(TaskId),
    /// The server for fair tasks looks whether it is needed.
    FairServer,
    /// The kernel looks for old dirty pages.
    WriteBack,
    /// A PSD lease of the module or the daemon looks whether it is over.
    Lease,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}
