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
    /// Tasks that were woken from the queue, each with room for one request, which nobody else gets (`rq_qos_wake_function()`).
    pub(super) admitted: Vec<TaskId>,
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
        if let Some(place) = self.admitted.iter().position(|woken| *woken == task) {
            self.admitted.swap_remove(place);
            return true;
        }
        let (in_flight, writes) = (self.in_flight_or_admitted(), self.kind_of_writes(task));
        let admits = (self.pages.throttle).admits_request(now, in_flight, writes);
        admits && self.queue.is_empty()
    }

    /// Admits the first tasks that wait, as many as the limit has room for, and returns them to be woken.
    pub(super) fn admit_waiting_tasks(&mut self, now: u64, has_cache: bool) -> Vec<TaskId> {
        let mut in_flight = self.in_flight_or_admitted();
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
        self.admitted.extend(&admitted);
        admitted
    }

    fn in_flight_or_admitted(&self) -> usize {
        self.pages.in_flight + self.admitted.len()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_cache::state::tests::cache;

    const FLUSHER: TaskId = 0;

    fn write_back_with_queue(queue: impl IntoIterator<Item = TaskId>) -> WriteBack {
        WriteBack {
            pages: cache(1000),
            journal: None,
            flusher: FLUSHER,
            round: Round::default(),
            rests: true,
            timer: false,
            requests: BTreeMap::new(),
            others: Vec::new(),
            deferred: Vec::new(),
            waiters: Vec::new(),
            queue: queue.into_iter().collect(),
            admitted: Vec::new(),
        }
    }

    #[test]
    fn tasks_that_are_woken_go_on_though_others_still_wait() {
        let mut write_back = write_back_with_queue(1..=40);
        let woken = write_back.admit_waiting_tasks(0, true);
        assert!(woken.iter().copied().eq(1..=16), "{woken:?}");
        // Nobody else gets their room, and all of them go on.
        assert!(!write_back.admits_write_back(0, 50));
        assert!(write_back.admit_waiting_tasks(0, true).is_empty());
        for task in woken {
            assert!(write_back.admits_write_back(0, task));
        }
        // None of them has submitted anything, so that no request will end.
        let next = write_back.admit_waiting_tasks(0, true);
        assert!(next.iter().copied().eq(17..=32), "{next:?}");
    }
}
