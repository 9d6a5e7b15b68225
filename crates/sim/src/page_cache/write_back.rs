//! The page cache, waiting tasks, and requests in flight to the drives.

use std::collections::{BTreeMap, VecDeque};

use crate::core::basics::{Direction, RequestId, TaskId};
use crate::page_cache::journal::Journal;
use crate::page_cache::pages::Pages;
use crate::page_cache::state::{PageCache, Round, Totals};
use crate::page_cache::throttle::Writes;

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

    /// Whether a task may submit one more write-back request; tasks that wait come first.
    pub(super) fn admits_write_back(&mut self, now: u64, task: TaskId) -> bool {
        let (in_flight, writes) = (self.pages.in_flight, self.kind_of_writes(task));
        let admits = (self.pages.throttle).admits_request(now, in_flight, writes);
        admits && self.queue.is_empty()
    }

    /// Removes and returns the tasks that may go on after a request has ended: the first ones, as many as the limit has room for.
    pub(super) fn take_admitted_tasks(&mut self, now: u64, has_cache: bool) -> Vec<TaskId> {
        let mut in_flight = self.pages.in_flight;
        let mut admitted = Vec::new();
        if self.pages.throttle.wakes_tasks(now, in_flight, has_cache) {
            while let Some(&task) = self.queue.front()
                && in_flight < self.pages.throttle.limit(now, self.kind_of_writes(task))
            {
                self.queue.pop_front();
                admitted.push(task);
                in_flight += 1;
            }
        }
        admitted
    }

    /// Counts a request of any task that a drive gets at the time `now`, and whose latency will be this in ns.
    pub(crate) fn count_request_of_drive(&mut self, now: u64, direction: Direction, latency: u64) {
        (self.pages.throttle).count_request(now, direction, latency);
    }

    fn kind_of_writes(&self, task: TaskId) -> Writes {
        if task == self.flusher {
            Writes::Background
        } else {
            Writes::Sync
        }
    }

    pub(crate) fn into_totals(self) -> Totals {
        self.pages.into_totals()
    }
}
