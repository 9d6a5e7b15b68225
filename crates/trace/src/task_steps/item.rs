//! What a task did, as it is followed.

use super::observed::{ObservedIo, ObservedRun};

/// What a task did next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Run(ObservedRun),
    /// The task spun for so many ns, whatever the clock.
    Spin(u64),
    Io(ObservedIo),
    Flush,
    /// The task woke the task with this number.
    Wake(u32),
    Wait(Wait),
    /// The task needed at most so many requests in flight to go on, and there were no more.
    Pass(u32),
    /// The task joined the sync of a log with so many bytes. Items up to [`Item::EndSync`] are those of a sync.
    JoinSync {
        log: u32,
        bytes: u32,
    },
    EndSync,
}

/// A task's wait by its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until so many of the task's requests were in flight.
    Io(u32),
    /// From a time until the expiry that a timer was set for, in ns.
    Timer { begun: u64, expiry: u64 },
    /// Until a task's wake-up.
    Task { waker: u32, slept_ns: u64 },
    /// From a time until an interrupt on a CPU, which no timer and no own request raised; in ns.
    Arrival { begun: u64, at: u64, cpu: u32 },
    /// For a time in ns, until something outside.
    Outside(u64),
}
