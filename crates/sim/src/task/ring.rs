//! Rings from which a kernel thread takes the submissions of a process (`sqthread_poll`).

use std::collections::VecDeque;

use crate::core::basics::{Cycles, RequestId, TaskId};

/// A request that waits in a ring for its thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingEntry {
    pub(super) request: RequestId,
    pub(super) bytes: u64,
    /// Byte on the volume where the request begins; 0 with a single drive, where no place matters.
    pub(super) offset: u64,
}

/// A kernel thread that submits the requests of a process.
#[derive(Debug)]
pub(crate) struct Submitter {
    /// Task of the thread, and of the process.
    pub(super) thread: TaskId,
    pub(super) owner: TaskId,
    pub(super) ring: VecDeque<RingEntry>,
    /// The entry being submitted.
    pub(super) present: Option<RingEntry>,
    /// Time in ns of the last submission.
    pub(super) last: u64,
    /// Whether the thread sleeps, and has to be woken by a system call.
    pub(super) asleep: bool,
    /// Whether the process has ended.
    pub(super) ended: bool,
}

impl Submitter {
    /// Work in cycles to tell the thread of a submission: a `system_call` that wakes the thread; none if the thread spins.
    pub(super) fn wake_up_work(&self, system_call: Cycles) -> Cycles {
        if self.asleep { system_call } else { 0 }
    }
}
