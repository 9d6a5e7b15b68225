//! Syncs of a file: a task writes back what is dirty, waits for it, and locks pages that an earlier request still writes back.
//!
//! As `write_cache_pages()` (`mm/page-writeback.c`) and `folio_lock()` (`mm/filemap.c`, Linux 6.12). A sync tags the pages that are
//! dirty when it begins, and takes tagged pages only. Who unlocks a page wakes its first waiter, and no other one. That waiter tries
//! for the lock again once it runs, and goes to the end of the queue if another task was faster.

use std::collections::VecDeque;

use crate::core::basics::{CpuId, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::page_cache::caller::{Caller, Reading};
use crate::page_cache::pages::{Pages, REQUEST, WORD, Words, run_of_bits, set_page_bits};
use crate::page_cache::state::PageCache;
use crate::page_cache::write_back::WriteBack;

/// Waits of a task for one lock after which the lock is handed over to the task (`sysctl_page_lock_unfairness`).
const UNFAIR_WAITS: u32 = 5;

/// Pages that a look-up by tag finds at once (`PAGEVEC_SIZE`).
const BATCH: usize = 31;

/// What a task's sync does next.
#[derive(Clone, Copy, Debug)]
enum SyncStep {
    /// Write these pages back, which are taken.
    Take(Pages),
    /// Wait for the request or the lock with this number.
    Wait(u64),
    /// Unlock a page that another task has written back meanwhile.
    Unlock,
    /// Nothing: all pages are taken.
    Done,
}

/// The pages of a word whose bits are set, ascending.
fn pages_in_word(word: u64, bits: u64) -> impl Iterator<Item = u64> {
    (0..WORD)
        .filter(move |bit| (bits >> bit) & 1 == 1)
        .map(move |bit| word * WORD + bit)
}

fn is_in_set(words: &Words, file: usize, page: u64) -> bool {
    run_of_bits(words, (file, page), 1, true) > 0
}

impl PageCache {
    /// Tags the dirty pages among these, which a sync takes from now on (`PAGECACHE_TAG_TOWRITE`).
    pub(super) fn tag_dirty_pages(&mut self, pages: Pages) {
        let (file, end) = (pages.file, pages.page_after_last());
        let mut from = pages.first;
        while let Some(first) = self.first_dirty_page(file, from, end) {
            let count = run_of_bits(&self.dirty_words, (file, first), end - first, true);
            set_page_bits(&mut self.tagged_words, Pages { file, first, count });
            from = first + count;
        }
    }

    /// The first pages among these that are tagged, as many as a look-up finds at once.
    fn batch_of_tagged_pages(&self, pages: Pages) -> VecDeque<u64> {
        let (file, first, end) = (pages.file, pages.first, pages.page_after_last());
        if first >= end {
            return VecDeque::new();
        }
        let words = (file, first / WORD)..=(file, (end - 1) / WORD);
        let tagged = (self.tagged_words.range(words))
            .flat_map(|((_, word), bits)| pages_in_word(*word, *bits))
            .filter(|page| (first..end).contains(page));
        tagged.take(BATCH).collect()
    }

    /// Removes the tags of pages that are taken, by a sync or by the flusher (`folio_start_writeback()`).
    pub(super) fn remove_tags(&mut self, pages: Pages) {
        for (word, bits) in pages.words_and_bits() {
            let place = (pages.file, word);
            if let Some(tagged) = self.tagged_words.get_mut(&place) {
                *tagged &= !bits;
                if *tagged == 0 {
                    self.tagged_words.remove(&place);
                }
            }
        }
    }

    /// Takes the next pages that the sync of a task writes back, which has the file for itself.
    fn take_pages_of_own_file(&mut self, caller: &mut Caller, task: TaskId) -> SyncStep {
        let (file, end) = (caller.file, caller.left.page_after_last());
        let Some(first) = self.first_dirty_page(file, caller.left.first, end) else {
            return SyncStep::Done;
        };
        let count = REQUEST.min(end - first);
        let pages = Pages { file, first, count };
        let until = match self.busy.first_obstacle(pages, task) {
            Some((page, number)) if page == first => return SyncStep::Wait(number),
            Some((page, _)) => page,
            None => pages.page_after_last(),
        };
        self.take_until(caller, first, until)
    }

    fn take_until(&mut self, caller: &mut Caller, first: u64, until: u64) -> SyncStep {
        match self.take_first_dirty_pages(caller.file, first, until) {
            Some(pages) => {
                caller.left.skip_pages_before(pages.page_after_last());
                SyncStep::Take(pages)
            }
            None => SyncStep::Done,
        }
    }

    /// Locks a page for a task; an error is the number to wait for.
    fn lock_page(&mut self, caller: &mut Caller, task: TaskId, page: u64) -> Result<(), u64> {
        let fresh = self.next_request_number();
        caller.lock = Some(self.busy.lock_page(fresh, (caller.file, page), task)?);
        caller.lock_waits = 0;
        Ok(())
    }

    /// The next step of a task's sync of a file that other tasks use, too: each page that it has found is locked, whatever has become of
    /// the page meanwhile.
    fn take_pages_of_shared_file(&mut self, caller: &mut Caller, task: TaskId) -> SyncStep {
        if caller.batch.is_empty() {
            caller.batch = self.batch_of_tagged_pages(caller.left);
        }
        let Some(&first) = caller.batch.front() else {
            return SyncStep::Done;
        };
        caller.left.skip_pages_before(first);
        if let Err(number) = self.lock_page(caller, task, first) {
            return SyncStep::Wait(number);
        }
        let file = caller.file;
        if !is_in_set(&self.dirty_words, file, first) {
            caller.batch.pop_front();
            return SyncStep::Unlock;
        }
        let page = |first| Pages {
            file,
            first,
            count: 1,
        };
        if let Some((_, number)) = self.busy.first_written_back(page(first)) {
            return SyncStep::Wait(number);
        }
        let mut until = first;
        while caller.batch.front() == Some(&until)
            && is_in_set(&self.dirty_words, file, until)
            && self.busy.first_obstacle(page(until), task).is_none()
            && until - first < REQUEST
        {
            caller.batch.pop_front();
            until += 1;
        }
        self.take_until(caller, first, until)
    }

    /// How many of its next pages a task may write at once, `most` at most; an error is the number to wait for. A task that has waited for
    /// a page's lock writes under this lock, and wakes the next waiter after that.
    pub(super) fn count_pages_to_write(
        &mut self,
        caller: &mut Caller,
        task: TaskId,
        most: u64,
    ) -> Result<u64, u64> {
        let first = caller.left.first;
        let locked = self.busy.first_locked(caller.left, task);
        let free = match locked {
            Some((page, number)) if page == first => return Err(number),
            Some((page, _)) => most.min(page - first),
            None => most,
        };
        if caller.lock_waits > 0 {
            self.lock_page(caller, task, first)?;
        }
        Ok(free)
    }

    /// Number of the request that a task's sync waits for next, after all its pages are submitted.
    pub(super) fn next_write_back_to_await(&self, caller: &mut Caller) -> Option<u64> {
        if !caller.shares_file {
            return self.oldest_write_back_upto(caller.file, caller.upto);
        }
        // `__filemap_fdatawait_range()` waits for each page that it has found for as long as anyone writes it back.
        loop {
            if caller.batch.is_empty() {
                caller.batch = self.busy.written_back_pages(caller.left, BATCH);
            }
            let first = *caller.batch.front()?;
            caller.left.skip_pages_before(first);
            let page = Pages {
                count: 1,
                ..caller.left
            };
            if let Some((_, number)) = self.busy.first_written_back(page) {
                return Some(number);
            }
            caller.batch.pop_front();
            caller.left.skip_pages_before(first + 1);
        }
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Tags what is dirty of the pages that a task's call is about to write back, if other tasks use the file, too.
    pub(super) fn tag_pages_to_sync(&mut self, task: TaskId) {
        if let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache)
            && caller.shares_file
        {
            caller.batch.clear();
            cache.pages.tag_dirty_pages(caller.left);
        }
    }

    /// Takes the next pages that a task's sync writes back, if any; an error is the number to wait for.
    pub(super) fn take_pages_to_sync(
        &mut self,
        cpu: CpuId,
        task: TaskId,
    ) -> Result<Option<Pages>, u64> {
        loop {
            let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache)
            else {
                return Ok(None);
            };
            let step = if caller.shares_file {
                cache.pages.take_pages_of_shared_file(caller, task)
            } else {
                cache.pages.take_pages_of_own_file(caller, task)
            };
            match step {
                SyncStep::Take(pages) => return Ok(Some(pages)),
                SyncStep::Wait(number) => return Err(number),
                SyncStep::Unlock => self.release_page_lock(cpu, task),
                SyncStep::Done => return Ok(None),
            }
        }
    }

    /// Releases the lock that a task has on a page, if any, and wakes the first of those that wait for the page.
    pub(super) fn release_page_lock(&mut self, cpu: CpuId, task: TaskId) {
        let caller = self.tasks[task].caller.as_mut();
        let Some(number) = caller.and_then(|caller| caller.lock.take()) else {
            return;
        };
        let now = self.context.now();
        while let Some(cache) = &mut self.cache {
            let first = cache.take_first_waiter(number);
            let caller = first.and_then(|first| self.tasks[first].caller.as_mut());
            // A page fault lets the lock go at once, so that the next waiter is woken, too.
            let is_fault = caller
                .as_ref()
                .is_some_and(|caller| (caller.reading.as_ref()).is_some_and(Reading::is_mapped));
            let is_due = caller
                .as_ref()
                .is_some_and(|caller| !is_fault && caller.lock_waits > UNFAIR_WAITS);
            if let Some(caller) = caller {
                caller.unlocked_at = Some(now);
            }
            let is_awaited = cache.awaits(number);
            let next = first.filter(|_| is_due);
            cache.pages.busy.unlock_page(number, next, is_awaited);
            let Some(first) = first else {
                return;
            };
            let to = self.choose_cpu_for_woken_task(first, Some((cpu, false)));
            self.wake_task(Some(cpu), first, to);
            if !is_fault {
                return;
            }
        }
    }
}

impl WriteBack {
    /// Removes and returns the task that has waited longest for a lock.
    fn take_first_waiter(&mut self, number: u64) -> Option<TaskId> {
        let first = self
            .waiters
            .iter()
            .position(|(awaited, _)| *awaited == number)?;
        Some(self.waiters.remove(first).1)
    }

    fn awaits(&self, number: u64) -> bool {
        self.waiters.iter().any(|(awaited, _)| *awaited == number)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::page_cache::state::Round;
    use crate::page_cache::state::tests::cache;

    const FIRST: TaskId = 1;
    const SECOND: TaskId = 2;

    fn pages(first: u64, count: u64) -> Pages {
        Pages {
            file: 0,
            first,
            count,
        }
    }

    /// A client of the shared file that begins to sync the whole file.
    fn begin_sync(cache: &mut PageCache) -> Caller {
        let mut caller = Caller::new(0, 0);
        caller.shares_file = true;
        caller.left = Pages::all_in_file(0);
        cache.tag_dirty_pages(caller.left);
        caller
    }

    #[track_caller]
    fn take(cache: &mut PageCache, caller: &mut Caller, task: TaskId) -> (u64, Pages) {
        let SyncStep::Take(taken) = cache.take_pages_of_shared_file(caller, task) else {
            panic!("nothing to take");
        };
        let number = cache.begin_write_back(taken);
        cache.in_flight += 1;
        cache
            .busy
            .unlock_page(caller.lock.take().unwrap(), None, false);
        (number, taken)
    }

    #[test]
    fn a_sync_takes_what_was_dirty_when_it_began() {
        let mut cache = cache(1000);
        cache.mark_pages_dirty(0, pages(4, 2));
        let mut caller = begin_sync(&mut cache);
        cache.mark_pages_dirty(0, pages(6, 1));
        cache.mark_pages_dirty(0, pages(100, 1));
        assert_eq!(take(&mut cache, &mut caller, FIRST).1, pages(4, 2));
        let step = cache.take_pages_of_shared_file(&mut caller, FIRST);
        assert!(matches!(step, SyncStep::Done), "{step:?}");
    }

    #[test]
    fn a_page_that_the_flusher_takes_is_tagged_no_more() {
        let mut cache = cache(1000);
        // More pages than the background threshold of 100.
        cache.mark_pages_dirty(0, pages(60, 200));
        let mut caller = begin_sync(&mut cache);
        let mut round = Round::default();
        let taken = cache.take_next_pages_for_flusher(0, &mut round).unwrap();
        assert_eq!(taken, pages(60, 200));
        let number = cache.begin_write_back(taken);
        cache.in_flight += 1;
        cache.count_written_pages(number, taken);
        cache.mark_pages_dirty(0, pages(60, 200));
        let step = cache.take_pages_of_shared_file(&mut caller, FIRST);
        assert!(matches!(step, SyncStep::Done), "{step:?}");
    }

    #[test]
    fn a_batch_has_the_first_tagged_pages_of_a_part() {
        let mut cache = cache(1000);
        for first in [3, 62, 64, 200, 300] {
            cache.mark_pages_dirty(0, pages(first, 1));
        }
        cache.tag_dirty_pages(pages(62, 239));
        cache.mark_pages_dirty(0, pages(0, 500));
        assert_eq!(cache.batch_of_tagged_pages(pages(0, 300)), [62, 64, 200]);
        assert_eq!(cache.batch_of_tagged_pages(pages(63, 1)), [0; 0]);
        assert_eq!(cache.batch_of_tagged_pages(pages(64, 0)), [0; 0]);
        cache.tag_dirty_pages(pages(0, 500));
        let batch = cache.batch_of_tagged_pages(Pages::all_in_file(0));
        assert!(batch.into_iter().eq(0..BATCH as u64));
    }

    #[test]
    fn a_sync_locks_each_page_that_it_has_found_though_another_one_has_taken_the_page() {
        let mut cache = cache(1000);
        cache.mark_pages_dirty(0, pages(4, 1));
        cache.mark_pages_dirty(0, pages(9, 1));
        let [mut first, mut second] = [begin_sync(&mut cache), begin_sync(&mut cache)];
        second.batch = cache.batch_of_tagged_pages(second.left);
        let (number, _) = take(&mut cache, &mut first, FIRST);
        // The page is dirty again, and the first task syncs it once more, under its lock.
        cache.mark_pages_dirty(0, pages(4, 1));
        let mut again = begin_sync(&mut cache);
        let step = cache.take_pages_of_shared_file(&mut again, FIRST);
        assert!(matches!(step, SyncStep::Wait(awaited) if awaited == number));
        let lock = again.lock.unwrap();
        let step = cache.take_pages_of_shared_file(&mut second, SECOND);
        assert!(matches!(step, SyncStep::Wait(awaited) if awaited == lock));
        cache.count_written_pages(number, pages(4, 1));
        assert_eq!(take(&mut cache, &mut again, FIRST).1, pages(4, 1));
        // The second task finds the page clean, and lets the lock go before it goes on.
        let step = cache.take_pages_of_shared_file(&mut second, SECOND);
        assert!(matches!(step, SyncStep::Unlock), "{step:?}");
        cache
            .busy
            .unlock_page(second.lock.take().unwrap(), None, false);
        assert_eq!(take(&mut cache, &mut second, SECOND).1, pages(9, 1));
    }

    #[test]
    fn a_sync_waits_for_a_page_as_long_as_anyone_writes_it_back() {
        let mut cache = cache(1000);
        cache.mark_pages_dirty(0, pages(4, 1));
        cache.mark_pages_dirty(0, pages(9, 1));
        let mut first = begin_sync(&mut cache);
        let numbers = [4, 9].map(|page| {
            let (number, taken) = take(&mut cache, &mut first, FIRST);
            assert_eq!(taken, pages(page, 1));
            number
        });
        first.left = Pages::all_in_file(0);
        assert_eq!(cache.next_write_back_to_await(&mut first), Some(numbers[0]));
        cache.count_written_pages(numbers[0], pages(4, 1));
        // Others write back the page again, and one in front of it that the first task has passed.
        cache.mark_pages_dirty(0, pages(2, 1));
        cache.mark_pages_dirty(0, pages(4, 1));
        let mut second = begin_sync(&mut cache);
        let (front, _) = take(&mut cache, &mut second, SECOND);
        let (repeated, _) = take(&mut cache, &mut second, SECOND);
        assert_eq!(cache.next_write_back_to_await(&mut first), Some(repeated));
        cache.count_written_pages(repeated, pages(4, 1));
        assert_eq!(cache.next_write_back_to_await(&mut first), Some(numbers[1]));
        cache.count_written_pages(numbers[1], pages(9, 1));
        assert_eq!(cache.next_write_back_to_await(&mut first), None);
        cache.count_written_pages(front, pages(2, 1));
    }
}
