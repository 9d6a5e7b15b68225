//! Pages that are being written back, and pages that a task keeps locked while it waits for that.
//!
//! As `folio_prepare_writeback()` (`mm/page-writeback.c`, Linux 6.12): who syncs a dirty page that an earlier request still writes
//! back locks the page and waits for that request. Until its own request is submitted nobody else writes or syncs the page.

use std::collections::BTreeMap;

use crate::page_cache::pages::Pages;

/// Pages that cannot be written back, or not even be written, right now.
#[derive(Debug, Default)]
pub(crate) struct BusyPages {
    /// Pages taken to be written back, by the number of their request, until it ends.
    written_back: BTreeMap<u64, Pages>,
    /// Locked pages, at most one for each task.
    locked: Vec<PageLock>,
}

/// A page that a task has locked.
#[derive(Clone, Copy, Debug)]
struct PageLock {
    /// What others wait for.
    number: u64,
    file: usize,
    page: u64,
}

/// Why a page cannot be synced at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The request with this number writes the page back.
    WriteBack(u64),
    /// Another task has locked the page; the number to wait for.
    Lock(u64),
}

impl BusyPages {
    pub(super) fn begin_write_back(&mut self, number: u64, pages: Pages) {
        self.written_back.insert(number, pages);
    }

    pub(super) fn end_write_back(&mut self, number: u64) {
        self.written_back.remove(&number);
    }

    /// Whether the request or the lock with this number still keeps pages busy.
    pub(super) fn is_pending(&self, number: u64) -> bool {
        self.written_back.contains_key(&number)
            || self.locked.iter().any(|lock| lock.number == number)
    }

    /// Locks a page. `number`: what others wait for.
    pub(super) fn lock_page(&mut self, number: u64, file: usize, page: u64) {
        self.locked.push(PageLock { number, file, page });
    }

    pub(super) fn unlock_page(&mut self, number: u64) {
        self.locked.retain(|lock| lock.number != number);
    }

    /// The first locked page among these, with the number to wait for.
    pub(super) fn first_locked(&self, pages: Pages) -> Option<(u64, u64)> {
        let places = pages.first..pages.page_after_last();
        let locked = self.locked.iter();
        locked
            .filter(|lock| lock.file == pages.file && places.contains(&lock.page))
            .map(|lock| (lock.page, lock.number))
            .min()
    }

    /// The first page among these that a task cannot sync at once, with the obstacle. `own`: number of the task's own lock.
    pub(super) fn first_obstacle(&self, pages: Pages, own: Option<u64>) -> Option<(u64, Obstacle)> {
        let others = self.locked.iter().filter(|lock| {
            Some(lock.number) != own
                && lock.file == pages.file
                && (pages.first..pages.page_after_last()).contains(&lock.page)
        });
        let locked = others
            .map(|lock| (lock.page, Obstacle::Lock(lock.number)))
            .min_by_key(|(page, _)| *page);
        let overlapping = self.written_back.iter().filter(|(_, other)| {
            other.file == pages.file
                && other.first < pages.page_after_last()
                && pages.first < other.page_after_last()
        });
        let written_back = overlapping
            .map(|(number, other)| {
                let first = other.first.max(pages.first);
                (first, Obstacle::WriteBack(*number))
            })
            .min_by_key(|(page, _)| *page);
        // A locked page is waited for by its locker.
        let found = locked.into_iter().chain(written_back);
        found.min_by_key(|(page, _)| *page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(busy.first_obstacle(pages(0, 100), None), None);
        busy.begin_write_back(1, pages(10, 4));
        busy.begin_write_back(2, pages(2, 1));
        let first = |busy: &BusyPages, from, own| busy.first_obstacle(pages(from, 90), own);
        assert_eq!(first(&busy, 0, None), Some((2, Obstacle::WriteBack(2))));
        assert_eq!(first(&busy, 12, None), Some((12, Obstacle::WriteBack(1))));
        assert_eq!(first(&busy, 14, None), None);
        let other_file = Pages {
            file: 1,
            ..pages(0, 90)
        };
        assert_eq!(busy.first_obstacle(other_file, None), None);

        // The locker waits for the request, and others for the locker.
        busy.lock_page(3, 0, 12);
        assert_eq!(first(&busy, 12, None), Some((12, Obstacle::Lock(3))));
        assert_eq!(
            first(&busy, 12, Some(3)),
            Some((12, Obstacle::WriteBack(1)))
        );
        assert_eq!(busy.first_locked(pages(11, 2)), Some((12, 3)));
        assert_eq!(busy.first_locked(pages(13, 2)), None);
        busy.end_write_back(1);
        assert!(!busy.is_pending(1) && busy.is_pending(3));
        assert_eq!(first(&busy, 12, Some(3)), None);
        assert_eq!(first(&busy, 12, None), Some((12, Obstacle::Lock(3))));
        busy.unlock_page(3);
        assert!(!busy.is_pending(3));
        assert_eq!(first(&busy, 12, None), None);
    }
}
