//! Ids, constants, interrupts and timers that all folders of the simulator use.

/// Cycles on the biggest core, the unit for all CPU work in the simulator.
pub(crate) type Cycles = u64;

/// A hardware thread's share in its core's speed when alone on the core, the unit of all shares.
pub(crate) const FULL_SHARE: u64 = 1024;

/// Stands for a time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

pub(crate) type CpuId = usize;
pub(crate) type TaskId = usize;
pub(crate) type RequestId = usize;
/// Number of a request that the page cache has made.
pub(crate) type PageCacheRequestId = RequestId;

/// Whether a submitted request waits for the rest of its batch.
pub(crate) type HeldByBatch = bool;

/// Delay in ns until a CPU hears of a task that was woken for it.
pub(crate) type NotificationDelay = u64;

/// Causes for an interrupt on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The drive has finished a request.
    Completion(RequestId),
    /// The scheduler's tick.
    Tick,
    /// A timer on the interrupted CPU has expired.
    Timer(Timer),
    /// RCU's soft interrupt, raised by a tick that found work for RCU.
    Rcu,
    /// schedutil wakes its thread to change the clock with this number.
    Frequency(usize),
    /// Another CPU has put a task on this CPU's run queue.
    Reschedule,
    /// The network has brought requests to a server.
    Network,
    /// The host of a virtual machine takes the CPU, which serves nothing until the host gives it back.
    Stolen,
}

/// Purposes for which a CPU has a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The background source with this index has work.
    Background(usize),
    /// The sleep of the task with this number ends.
    Task(TaskId),
    /// The deadline server for fair tasks looks whether a fair task is starved.
    FairServer,
    /// The kernel looks for old dirty pages in the page cache.
    WriteBack,
    /// A PSD lease by the module or the daemon looks whether the time is over.
    Lease,
}

/// Direction of a request's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}
