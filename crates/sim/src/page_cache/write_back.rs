//! The page cache, waiting tasks, and requests in flight to the drives.

use std::collections::{BTreeMap, VecDeque};

use crate::core::basics::{RequestId, TaskId};
use crate::page_cache::state::{PageCache, Pages, Round, Totals};

/// The page cache and write-back.
#[derive(Debug)]
pub(crate) struct WriteBack {
    pub(super) pages: PageCache,
    /// The flusher thread, its round, and whether the thread has nothing to do.
    pub(super) flusher: TaskId,
    pub(super) round: Round,
    pub(super) rests: bool,
    /// The kernel's timer runs.
    pub(super) timer: bool,
    /// Requests in flight: number and pages.
    pub(super) requests: BTreeMap<RequestId, (u64, Pages)>,
    /// Numbers of requests that read or flush.
    pub(super) others: Vec<u64>,
    /// Tasks that await a request, by number.
    pub(super) waiters: Vec<(u64, TaskId)>,
    /// Tasks that wait until fewer requests are in flight.
    pub(super) queue: VecDeque<TaskId>,
}

impl WriteBack {
    pub(crate) fn into_totals(self) -> Totals {
        self.pages.into_totals()
    }
}
