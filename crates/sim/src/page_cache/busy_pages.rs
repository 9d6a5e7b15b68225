//! Pages that are being written back, and locked pages.
//!
//! As `folio_prepare_writeback()` (`mm/page-writeback.c`, Linux 6.12): who syncs a dirty page that an earlier request still writes
//! back locks the page and waits for that request. Until its own request is submitted nobody else writes or syncs the page.

use std::collections::{BTreeMap, VecDeque};

use crate::core::basics::TaskId;
use crate::page_cache::pages::Pages;

/// Pages that cannot be written back, or not even be written, right now.
#[derive(Debug, Default)]
pub(crate) struct BusyPages {
    /// Pages taken to be written back, by the number of their request, until it ends.
    written_back: BTreeMap<u64, Pages>,
    /// Locks held or waited for; a task holds one at most.
    locked: Vec<PageLock>,
}

/// The lock of a page that a task holds or waits for.
#[derive(Clone, Copy, Debug)]
struct PageLock {
    /// What others wait for.
    number: u64,
    file: usize,
    page: u64,
    /// `None`: tasks have waited for the lock, and the first of them is about to try again.
    holder: Option<TaskId>,
}

impl PageLock {
    fn is_held_by_another_than(&self, task: TaskId) -> bool {
        self.holder.is_some_and(|holder| holder != task)
    }
}

impl BusyPages {
    pub(super) fn begin_write_back(&mut self, number: u64, pages: Pages) {
        self.written_back.insert(number, pages);
    }

    pub(super) fn end_write_back(&mut self, number: u64) {
        self.written_back.remove(&number);
    }

    /// Whether the request or the lock with this number keeps pages busy for a task.
    pub(super) fn is_pending(&self, number: u64, task: TaskId) -> bool {
        let mut locked = self.locked.iter();
        self.written_back.contains_key(&number)
            || locked.any(|lock| lock.number == number && lock.is_held_by_another_than(task))
    }

    /// Whether the number is that of a lock.
    pub(super) fn has_lock(&self, number: u64) -> bool {
        self.locked.iter().any(|lock| lock.number == number)
    }

    /// Locks a page for a task, with the number `fresh` for others to wait for if the lock has none yet. Returns the lock's number; an
    /// error is the number that the task has to wait for.
    pub(super) fn lock_page(
        &mut self,
        fresh: u64,
        (file, page): (usize, u64),
        task: TaskId,
    ) -> Result<u64, u64> {
        let mut known = self.locked.iter_mut();
        let Some(lock) = known.find(|lock| lock.file == file && lock.page == page) else {
            self.locked.push(PageLock {
                number: fresh,
                file,
                page,
                holder: Some(task),
            });
            return Ok(fresh);
        };
        if lock.is_held_by_another_than(task) {
            return Err(lock.number);
        }
        lock.holder = Some(task);
        Ok(lock.number)
    }

    /// Unlocks a page, and hands its lock over to the task `next`, if any. `awaited`: further tasks wait for the lock.
    pub(super) fn unlock_page(&mut self, number: u64, next: Option<TaskId>, awaited: bool) {
        if next.is_none() && !awaited {
            return self.locked.retain(|lock| lock.number != number);
        }
        for lock in self.locked.iter_mut().filter(|lock| lock.number == number) {
            lock.holder = next;
        }
    }

    /// The first page among these that is being written back, with the number of its request.
    pub(super) fn first_written_back(&self, pages: Pages) -> Option<(u64, u64)> {
        let requests = self.written_back.iter();
        requests
            .filter(|(_, other)| other.overlaps(pages))
            .map(|(number, other)| (other.first.max(pages.first), *number))
            .min()
    }

    /// The first page among these that another task than this one has locked, with the number to wait for.
    pub(super) fn first_locked(&self, pages: Pages, task: TaskId) -> Option<(u64, u64)> {
        let others = self.locked.iter().filter(|lock| {
            lock.is_held_by_another_than(task)
                && lock.file == pages.file
                && (pages.first..pages.page_after_last()).contains(&lock.page)
        });
        others.map(|lock| (lock.page, lock.number)).min()
    }

    /// The first page among these that a task cannot sync at once, with the number to wait for.
    pub(super) fn first_obstacle(&self, pages: Pages, task: TaskId) -> Option<(u64, u64)> {
        let obstacles = [
            self.first_locked(pages, task),
            self.first_written_back(pages),
        ];
        // The lock of a page comes before the page's write-back: a sync waits for the write-back under the lock.
        obstacles
            .into_iter()
            .flatten()
            .min_by_key(|(page, _)| *page)
    }

    /// The first pages among these that are being written back, `most` at most.
    pub(super) fn written_back_pages(&self, pages: Pages, most: usize) -> VecDeque<u64> {
        let requests = self.written_back.values();
        let mut ranges: Vec<Pages> = requests
            .filter(|other| other.overlaps(pages))
            .copied()
            .collect();
        ranges.sort_unstable_by_key(|range| range.first);
        let mut found = VecDeque::with_capacity(most);
        let mut from = pages.first;
        for range in ranges {
            let end = range.page_after_last().min(pages.page_after_last());
            let new = from.max(range.first)..end;
            found.extend(new.take(most - found.len()));
            if found.len() >= most {
                break;
            }
            from = from.max(end);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKER: TaskId = 7;
    const OTHER: TaskId = 8;

    const fn pages(first: u64, count: u64) -> Pages {
        Pages {
            file: 0,
            first,
            count,
        }
    }

    #[test]
    fn a_page_is_busy_while_it_is_written_back_and_while_it_is_locked() {
        let mut busy = BusyPages::default();
        assert_eq!(busy.first_obstacle(pages(0, 100), OTHER), None);
        busy.begin_write_back(1, pages(10, 4));
        busy.begin_write_back(2, pages(2, 1));
        let first = |busy: &BusyPages, from, task| busy.first_obstacle(pages(from, 90), task);
        assert_eq!(first(&busy, 0, OTHER), Some((2, 2)));
        assert_eq!(first(&busy, 12, OTHER), Some((12, 1)));
        assert_eq!(first(&busy, 14, OTHER), None);
        let other_file = Pages {
            file: 1,
            ..pages(0, 90)
        };
        assert_eq!(busy.first_obstacle(other_file, OTHER), None);

        // The locker waits for the request, and others for the locker.
        assert_eq!(busy.lock_page(3, (0, 12), LOCKER), Ok(3));
        assert_eq!(first(&busy, 12, OTHER), Some((12, 3)));
        assert_eq!(first(&busy, 12, LOCKER), Some((12, 1)));
        assert_eq!(busy.first_locked(pages(11, 2), OTHER), Some((12, 3)));
        assert_eq!(busy.first_locked(pages(13, 2), OTHER), None);
        busy.end_write_back(1);
        assert!(!busy.is_pending(1, OTHER) && busy.is_pending(3, OTHER));
        assert_eq!(first(&busy, 12, LOCKER), None);
        assert_eq!(first(&busy, 12, OTHER), Some((12, 3)));
        busy.unlock_page(3, None, false);
        assert!(!busy.is_pending(3, OTHER) && !busy.has_lock(3));
        assert_eq!(first(&busy, 12, OTHER), None);
    }

    #[test]
    fn a_lock_is_free_between_a_wake_up_and_the_next_try_unless_it_is_handed_over() {
        let mut busy = BusyPages::default();
        assert_eq!(busy.lock_page(1, (0, 5), LOCKER), Ok(1));
        assert_eq!(busy.lock_page(2, (0, 5), OTHER), Err(1));
        assert_eq!(busy.lock_page(2, (0, 6), OTHER), Ok(2));
        // The first waiter is woken, and another task is faster.
        busy.unlock_page(1, None, true);
        assert!(busy.has_lock(1) && !busy.is_pending(1, OTHER));
        assert_eq!(busy.lock_page(3, (0, 5), LOCKER), Ok(1));
        assert!(busy.is_pending(1, OTHER) && !busy.is_pending(1, LOCKER));
        // The lock is handed over, so that nobody is faster.
        busy.unlock_page(1, Some(OTHER), false);
        assert_eq!(busy.lock_page(4, (0, 5), LOCKER), Err(1));
        assert_eq!(busy.lock_page(4, (0, 5), OTHER), Ok(1));
        busy.unlock_page(1, None, false);
        assert_eq!(busy.lock_page(4, (0, 5), LOCKER), Ok(4));
    }

    #[test]
    fn the_first_page_that_is_written_back_is_found_whatever_its_request() {
        let mut busy = BusyPages::default();
        busy.begin_write_back(1, pages(20, 4));
        busy.begin_write_back(2, pages(10, 2));
        assert_eq!(busy.first_written_back(pages(0, 100)), Some((10, 2)));
        assert_eq!(busy.first_written_back(pages(12, 100)), Some((20, 1)));
        assert_eq!(busy.first_written_back(pages(22, 100)), Some((22, 1)));
        assert_eq!(busy.first_written_back(pages(24, 100)), None);
        assert_eq!(busy.written_back_pages(pages(0, 100), 4), [10, 11, 20, 21]);
        assert_eq!(busy.written_back_pages(pages(22, 1), 4), [22]);
        assert_eq!(busy.written_back_pages(pages(0, 100), 31).len(), 6);
        assert_eq!(busy.written_back_pages(pages(11, 100), 3), [11, 20, 21]);
    }
}
