//! The page cache, who waits for its pages, and what is on its way to the drives.

use std::collections::{BTreeMap, VecDeque};

use crate::core::basics::{RequestId, TaskId};
use crate::page_cache::state::{PageCache, Pages, Round, Totals};

/// The page cache, and who does something with it.
#[derive(Debug)]
pub(crate) struct WriteBack {
    pub(super) pages: PageCache,
    /// The kernel's thread that writes back, how far it has come, and whether it has nothing to do.
    pub(super) flusher: TaskId,
    pub(super) round: Round,
    pub(super) rests: bool,
    /// The kernel's timer runs.
    pub(super) timer: bool,
    /// Requests on their way: their numbers and pages.
    pub(super) requests: BTreeMap<RequestId, (u64, Pages)>,
    /// The numbers of those that read or flush.
    pub(super) others: Vec<u64>,
    /// Who waits for the end of which request.
    pub(super) waiters: Vec<(u64, TaskId)>,
    /// Who waits until fewer requests are in flight.
    pub(super) queue: VecDeque<TaskId>,
}

impl WriteBack {
    pub(crate) fn into_totals(self) -> Totals {
        self.pages.into_totals()
    }
}
