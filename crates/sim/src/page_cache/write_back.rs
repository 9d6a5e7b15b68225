//! The page cache, waiting tasks, and requests in flight to the drives.

use std::collections::{BTreeMap, VecDeque};

use crate::core::basics::{RequestId, TaskId};
use crate::page_cache::journal::Journal;
use crate::page_cache::pages::Pages;
use crate::page_cache::state::{PageCache, Round, Totals};

/// The page cache, its flusher thread, and requests in flight.
#[derive(Debug)]
pub(crate) struct WriteBack {
    pub(super) pages: PageCache,
    /// The journal of the file system, if the machine has one.
    pub(super) journal: Option<Journal>,
    /// Task of the flusher thread, its round through the files, and whether it sleeps with nothing to do.
    pub(super) flusher: TaskId,
    pub(super) round: Round,
    pub(super) rests: bool,
    /// Whether the kernel's write-back timer is running.
    pub(super) timer: bool,
    /// Requests in flight, with their page cache number and pages.
    pub(super) requests: BTreeMap<RequestId, (u64, Pages)>,
    /// Page cache numbers of requests in flight that read or flush.
    pub(super) others: Vec<u64>,
    /// Page cache numbers of requests that reads beside their task wait for, each with the task.
    pub(super) deferred: Vec<(u64, TaskId)>,
    /// Page cache numbers of awaited requests and locks, each with the waiting task.
    pub(super) waiters: Vec<(u64, TaskId)>,
    /// Tasks that wait until fewer write-back requests are in flight.
    pub(super) queue: VecDeque<TaskId>,
}

impl WriteBack {
    /// Removes and returns the tasks that wait for a request or a lock.
    pub(super) fn take_waiters(&mut self, number: u64) -> Vec<TaskId> {
        let waiting = self
            .waiters
            .extract_if(.., |(awaited, _)| *awaited == number);
        waiting.map(|(_, task)| task).collect()
    }

    pub(crate) fn into_totals(self) -> Totals {
        self.pages.into_totals()
    }
}
