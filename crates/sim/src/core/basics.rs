//! Numbers and names that every room uses.

/// Cycles on the biggest core, the unit for all CPU work in the simulator.
pub(crate) type Cycles = u64;

/// A thread's share when alone on a core.
pub(crate) const FULL_SHARE: u64 = 1024;

/// No such point in time.
pub(crate) const NEVER: u64 = u64::MAX;

pub(crate) type CpuId = usize;
pub(crate) type TaskId = usize;
pub(crate) type RequestId = usize;

/// Causes for an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The drive has finished a request.
    Completion(RequestId),
    /// The scheduler's tick.
    Tick,
    /// A timer on this CPU expired.
    Timer(Timer),
    /// A tick has found work for RCU.
    Rcu,
    /// schedutil wants a thread to change this clock.
    Frequency(usize),
    /// Another CPU has queued a task here.
    Reschedule,
}

/// Purposes for a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Background work with this index.
    Background(usize),
    /// A task's sleep ends.
    Task(TaskId),
    /// The server for fair tasks looks whether anybody needs the server.
    FairServer,
    /// The kernel looks for old dirty pages.
    WriteBack,
    /// A PSD lease by the module or the daemon looks whether the time is over.
    Lease,
}

/// Direction for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}
