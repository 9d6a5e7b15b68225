//! The page cache: cached and dirty pages by file, and the writers' pace.
//!
//! Rules and constants follow Linux 6.12 (`mm/page-writeback.c`, `fs/fs-writeback.c`), unless said otherwise.

use crate::core::basics::{Cycles, TaskId};
use crate::page_cache::arrivals::Arrivals;
use crate::page_cache::busy_pages::BusyPages;
use crate::page_cache::mappings::Mappings;
use crate::page_cache::pages::{Pages, REQUEST, WORD, Words, count_page_bits, set_page_bits};
use crate::page_cache::setup::PageCacheSetup;
use crate::page_cache::throttle::Throttle;

/// How often the kernel looks for old data, and how old those are, in ns (`vm.dirty_writeback_centisecs`,
/// `vm.dirty_expire_centisecs`).
pub(crate) const LOOK_EVERY: u64 = 5_000_000_000;
pub(crate) const OLD_AFTER: u64 = 30_000_000_000;

/// The drives' assumed write rate in pages per second until it is measured (`INIT_BW`, 100 MB/s).
const FIRST_BANDWIDTH: u64 = 25_600;

/// How often the drives' write rate is estimated, and over what time it is smoothed, in ns.
const ESTIMATE_EVERY: u64 = 200_000_000;
const SMOOTH_OVER: u64 = 3_000_000_000;

/// A writer's longest pause, and the time that its writes between two pauses should take, in ns.
const LONGEST_PAUSE: u64 = 200_000_000;
const TURN: u64 = 10_000_000;

/// Pages written back by the kernel in one file before the next file's turn: half a second at the first bandwidth.
const CHUNK: u64 = FIRST_BANDWIDTH / 2;

/// A file or device with pages in the cache.
#[derive(Clone, Debug, Default)]
struct File {
    dirty: u64,
    /// Time in ns when the file became dirty, as far as the kernel knows.
    dirty_since: u64,
    /// The page at which the kernel's write-back of the file continues.
    next: u64,
    /// Numbers of requests that write the file back, oldest first, from when their pages are taken.
    in_flight: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct PageCache {
    pub(super) setup: PageCacheSetup,
    /// Cached pages and their count, if any job asks.
    pub(super) cached: Words,
    pub(super) in_memory: u64,
    /// Pages that are being read ahead.
    pub(super) arrivals: Arrivals,
    /// Pages that processes have mapped.
    pub(super) mappings: Mappings,
    /// Pages being written back, and locked pages.
    pub(super) busy: BusyPages,
    /// Dirty pages that no request writes back yet, and their count.
    pub(super) dirty_words: Words,
    /// Pages of files with several tasks that syncs in progress take once they are dirty.
    pub(super) tagged_words: Words,
    dirty: u64,
    files: Vec<File>,
    /// Number of pages in flight to the drive, and of the requests with such pages.
    on_the_way: u64,
    pub(super) in_flight: usize,
    pub(super) throttle: Throttle,
    /// Number of the last request.
    last: u64,
    /// File and word where clean pages were last dropped.
    hand: (usize, u64),
    pace: Pace,
    pub(super) totals: Totals,
}

/// Totals of the page cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Number of pages that became dirty, were written back, and were dirty or in flight at the run's end.
    pub(super) dirtied: u64,
    pub(super) written: u64,
    pub(super) left: u64,
    /// Time in ns that writers were held back, summed over writers.
    pub(super) paused: u64,
    /// Number of pages read by reads that look at single pages, of the requests for them, and of pages that they copied.
    pub(super) read: u64,
    pub(super) read_requests: u64,
    pub(super) copied: u64,
}

/// The drives' write rate, and the writers that share the rate.
#[derive(Debug)]
struct Pace {
    /// Estimated write rate of the drives, in pages per second.
    bandwidth: u64,
    /// Time in ns of the last estimate, and the number of pages written by then.
    at: u64,
    written: u64,
    /// Writers held back since the last estimate, and how many share the rate now.
    writers: Vec<TaskId>,
    sharing: u64,
}

/// A writer's account of dirtied pages and pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    /// Pages dirtied since the writer's last look at the limits, and pages after which it looks again.
    dirtied: u64,
    looks_after: u64,
    /// Time in ns when the writer's last pause was over.
    paused_until: u64,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            dirtied: 0,
            looks_after: 32,
            paused_until: 0,
        }
    }
}

impl PageCache {
    pub(crate) fn new(setup: PageCacheSetup) -> Self {
        Self {
            cached: Words::new(),
            in_memory: 0,
            arrivals: Arrivals::default(),
            mappings: Mappings::default(),
            busy: BusyPages::default(),
            dirty_words: Words::new(),
            tagged_words: Words::new(),
            dirty: 0,
            files: vec![File::default(); setup.files],
            on_the_way: 0,
            in_flight: 0,
            throttle: Throttle::new(),
            last: 0,
            hand: (0, 0),
            pace: Pace {
                bandwidth: FIRST_BANDWIDTH,
                at: 0,
                written: 0,
                writers: Vec::new(),
                sharing: 1,
            },
            totals: Totals::default(),
            setup,
        }
    }

    /// The page cache's totals at the end of the run.
    pub(crate) fn into_totals(self) -> Totals {
        Totals {
            left: self.dirty + self.on_the_way,
            ..self.totals
        }
    }

    /// Number of dirty pages that no request writes back yet.
    pub(crate) fn dirty_page_count(&self) -> u64 {
        self.dirty
    }

    /// Whether so many pages are dirty that the kernel writes back in the background.
    pub(crate) fn exceeds_background_threshold(&self) -> bool {
        self.dirty > self.setup.background_write_back_threshold()
    }

    /// Whether all the given pages are cached.
    pub(crate) fn has_all_cached(&self, pages: Pages) -> bool {
        pages.words_and_bits().all(|(word, bits)| {
            (self.cached.get(&(pages.file, word))).is_some_and(|cached| cached & bits == bits)
        })
    }

    /// Remembers pages just read or written as cached, if any job asks, and drops clean pages beyond the memory.
    pub(crate) fn remember_cached_pages(&mut self, pages: Pages) {
        if self.setup.remembers {
            self.in_memory += set_page_bits(&mut self.cached, pages);
            if self.in_memory > self.setup.pages {
                self.drop_clean_pages_beyond_memory();
            }
        }
    }

    /// Work in cycles to write pages, which are cached from then on: the kernel inserts a page before it copies, so that another
    /// writer finds the page.
    pub(crate) fn begin_write(&mut self, pages: Pages) -> Cycles {
        let cached = count_page_bits(&self.cached, pages);
        self.remember_cached_pages(pages);
        self.setup.cached_page * cached + self.setup.page * (pages.count - cached)
    }

    /// Marks written pages as cached and dirty. Returns how many were not dirty before.
    pub(crate) fn mark_pages_dirty(&mut self, now: u64, pages: Pages) -> u64 {
        self.remember_cached_pages(pages);
        let dirtied = set_page_bits(&mut self.dirty_words, pages);
        let file = &mut self.files[pages.file];
        if file.dirty == 0 && dirtied > 0 {
            file.dirty_since = now;
        }
        file.dirty += dirtied;
        self.dirty += dirtied;
        self.totals.dirtied += dirtied;
        dirtied
    }

    /// Drops clean pages until the cached pages fit into memory, in order by file and page from the last place on.
    fn drop_clean_pages_beyond_memory(&mut self) {
        let mut rounds = 0;
        while self.in_memory > self.setup.pages && rounds < 2 {
            let next = self.cached.range_mut(self.hand..).next();
            let Some((place, cached)) = next else {
                self.hand = (0, 0);
                rounds += 1;
                continue;
            };
            let place = *place;
            let dirty = self.dirty_words.get(&place).copied().unwrap_or(0);
            let kept = dirty | self.arrivals.drop_marks_and_return_arriving(place);
            self.mappings.unmap(place, !kept);
            self.in_memory -= u64::from((*cached & !kept).count_ones());
            *cached &= kept;
            if *cached == 0 {
                self.cached.remove(&place);
            }
            self.hand = (place.0, place.1 + 1);
        }
    }

    /// The first dirty page in a part of a file.
    pub(super) fn first_dirty_page(&self, file: usize, from: u64, to: u64) -> Option<u64> {
        if self.files[file].dirty == 0 || from >= to {
            return None;
        }
        let last = to - 1;
        (self.dirty_words)
            .range((file, from / WORD)..=(file, last / WORD))
            .find_map(|((_, word), dirty)| {
                let start = word * WORD;
                let skip = from.saturating_sub(start);
                let dirty = dirty & (u64::MAX << skip);
                (dirty != 0).then(|| start + u64::from(dirty.trailing_zeros()))
            })
            .filter(|first| *first < to)
    }

    /// Removes and returns the first adjacent dirty pages in a part of a file, at most one request's, to be written back.
    pub(crate) fn take_first_dirty_pages(
        &mut self,
        file: usize,
        from: u64,
        to: u64,
    ) -> Option<Pages> {
        let first = self.first_dirty_page(file, from, to)?;
        let mut end = first;
        while end < to && end - first < REQUEST {
            let place = (file, end / WORD);
            let Some(dirty) = self.dirty_words.get_mut(&place) else {
                break;
            };
            let bit = end % WORD;
            let in_word = u64::from((!(*dirty >> bit)).trailing_zeros()).min(WORD - bit);
            let run = in_word.min(to - end).min(REQUEST - (end - first));
            if run == 0 {
                break;
            }
            *dirty &= !((u64::MAX >> (WORD - run)) << bit);
            if *dirty == 0 {
                self.dirty_words.remove(&place);
            }
            end += run;
            if end % WORD != 0 {
                break;
            }
        }
        let count = end - first;
        self.files[file].dirty -= count;
        self.dirty -= count;
        self.on_the_way += count;
        let pages = Pages { file, first, count };
        self.remove_tags(pages);
        Some(pages)
    }

    /// Whether the kernel's write-back has pages to take in a file: with many dirty pages in any file, otherwise only `old` ones.
    fn flusher_takes_from_file(&self, file: usize, takes_old: bool, now: u64) -> bool {
        self.files.get(file).is_some_and(|file| {
            let is_old = takes_old && file.dirty_since.saturating_add(OLD_AFTER) <= now;
            file.dirty > 0 && (self.exceeds_background_threshold() || is_old)
        })
    }

    /// Removes and returns the next pages that the kernel's flusher writes back, going round the files.
    pub(crate) fn take_next_pages_for_flusher(
        &mut self,
        now: u64,
        round: &mut Round,
    ) -> Option<Pages> {
        loop {
            let files = self.files.len();
            if round.left == 0 || !self.flusher_takes_from_file(round.file, round.old, now) {
                let mut others = (1..=files).map(|n| (round.file + n) % files);
                round.file =
                    others.find(|file| self.flusher_takes_from_file(*file, round.old, now))?;
                round.left = CHUNK;
            }
            let at = round.file;
            let Some(pages) = self.take_first_dirty_pages(at, self.files[at].next, u64::MAX) else {
                // The write-back has come round the file: pages that are dirty now became dirty meanwhile.
                self.files[at].next = 0;
                self.files[at].dirty_since = now;
                if self.files[at].dirty > 0 && !self.exceeds_background_threshold() {
                    round.left = 0;
                }
                continue;
            };
            self.files[at].next = pages.first + pages.count;
            if self.files[at].dirty == 0 {
                self.files[at].next = 0;
            }
            round.left = round.left.saturating_sub(pages.count);
            return Some(pages);
        }
    }

    /// Numbers the request that is to write back these pages, just taken.
    pub(crate) fn begin_write_back(&mut self, pages: Pages) -> u64 {
        let number = self.next_request_number();
        self.files[pages.file].in_flight.push(number);
        self.busy.begin_write_back(number, pages);
        number
    }

    /// Counts the pages of a finished write-back request as written.
    pub(crate) fn count_written_pages(&mut self, number: u64, pages: Pages) {
        self.in_flight -= 1;
        self.on_the_way -= pages.count;
        self.totals.written += pages.count;
        self.files[pages.file].in_flight.retain(|n| *n != number);
        self.busy.end_write_back(number);
    }

    /// Number of the last request.
    pub(crate) fn last_request_number(&self) -> u64 {
        self.last
    }

    /// Returns the next number, for a request that writes nothing back.
    pub(crate) fn next_request_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Number of the oldest request in flight that writes back a file, if at most `upto`.
    pub(crate) fn oldest_write_back_upto(&self, file: usize, upto: u64) -> Option<u64> {
        let oldest = self.files[file].in_flight.first().copied();
        oldest.filter(|number| *number <= upto)
    }

    /// Counts pages that a writer has dirtied. Returns until when the writer has to pause, if at all.
    ///
    /// As `balance_dirty_pages()`: the writer's rate is an equal share in the drives' write rate, faster or slower the
    /// farther the dirty pages are from the middle between free run and limit.
    pub(crate) fn pause_after_dirtying(
        &mut self,
        now: u64,
        task: TaskId,
        writer: &mut Writer,
        dirtied: u64,
    ) -> Option<u64> {
        writer.dirtied += dirtied;
        let due = std::mem::take(&mut writer.dirtied);
        if due < writer.looks_after {
            writer.dirtied = due;
            return None;
        }
        let dirty = self.dirty + self.on_the_way;
        let (freerun, limit) = (
            self.setup.freerun_threshold(),
            self.setup.dirty_page_limit(),
        );
        if dirty <= freerun {
            writer.looks_after = (limit - dirty).isqrt().max(1);
            writer.paused_until = now;
            return None;
        }
        self.estimate_bandwidth_and_writers(now, task);
        let share = self.pace.bandwidth / self.pace.sharing;
        let rate = (share * self.rate_factor_in_1024ths(dirty) / 1024).max(1);
        let at_rate = u128::from(due) * 1_000_000_000 / u128::from(rate);
        let turn = at_rate.min(u128::from(LONGEST_PAUSE)) as u64;
        writer.looks_after = (rate * TURN / 1_000_000_000).clamp(1, REQUEST * 8);
        // The time that the writer spent on these pages counts towards its pause, unless long ago.
        let began = writer.paused_until.max(now.saturating_sub(LONGEST_PAUSE));
        let until = began + turn;
        writer.paused_until = until;
        (until > now).then(|| {
            self.totals.paused += until - now;
            self.throttle.note_pause(now);
            until
        })
    }

    /// By how much a writer's rate differs from its share, in 1024ths: 1024 in the middle between free run and limit, 0 at
    /// the limit, twice as much at most.
    fn rate_factor_in_1024ths(&self, dirty: u64) -> u64 {
        let (freerun, limit) = (
            self.setup.freerun_threshold(),
            self.setup.dirty_page_limit(),
        );
        let middle = freerun.midpoint(limit);
        let room = 1024 * (i128::from(middle) - i128::from(dirty));
        let off = (room / i128::from(limit - middle).max(1)).clamp(-1024, 1024);
        (1024 + off * off * off / (1024 * 1024)) as u64
    }

    /// Estimates the drives' write rate, and the number of sharing writers.
    fn estimate_bandwidth_and_writers(&mut self, now: u64, task: TaskId) {
        let pace = &mut self.pace;
        if !pace.writers.contains(&task) {
            pace.writers.push(task);
        }
        pace.sharing = pace.sharing.max(pace.writers.len() as u64);
        let elapsed = now - pace.at;
        if elapsed < ESTIMATE_EVERY {
            return;
        }
        // The first pause says nothing about the time before.
        if elapsed < SMOOTH_OVER {
            let written = self.totals.written - pace.written;
            let sum = u128::from(written) * 1_000_000_000
                + u128::from(pace.bandwidth) * u128::from(SMOOTH_OVER - elapsed);
            pace.bandwidth = ((sum / u128::from(SMOOTH_OVER)) as u64).max(1);
        }
        (pace.at, pace.written) = (now, self.totals.written);
        pace.sharing = pace.writers.len().max(1) as u64;
        pace.writers.clear();
    }
}

/// How far the kernel's flusher is on its round through the files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    file: usize,
    /// Pages left to write back before the next file's turn.
    left: u64,
    /// Whether the round also takes pages that have been dirty for long.
    pub(super) old: bool,
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in crate::page_cache) fn cache(pages: u64) -> PageCache {
        PageCache::new(PageCacheSetup {
            pages,
            call: 1,
            page: 3,
            cached_page: 1,
            read_page: 1,
            write_back: 1,
            new_page: 1,
            folio_page: 1,
            mapped_io: 1,
            mapped_page: 1,
            journal: None,
            files: 2,
            remembers: true,
        })
    }

    proptest! {
        /// Compared with one flag per page.
        #[test]
        fn pages_are_dirty_from_when_they_are_written_until_they_are_taken(
            steps in prop::collection::vec(
                (any::<bool>(), 0_usize..2, 0_u64..2000, 1_u64..700),
                1..200,
            ),
        ) {
            let mut cache = cache(1 << 20);
            let mut flags = vec![vec![false; 3000]; 2];
            let mut taken = 0;
            for (now, (writes, file, first, count)) in (0..).zip(steps) {
                if writes {
                    let run = &mut flags[file][first as usize..(first + count) as usize];
                    let new = run.iter().filter(|dirty| !**dirty).count() as u64;
                    run.fill(true);
                    prop_assert_eq!(cache.mark_pages_dirty(now, Pages { file, first, count }), new);
                    let all = Pages { file, first, count };
                    prop_assert!(cache.has_all_cached(all), "{:?}", all);
                    continue;
                }
                let to = first + count;
                let wanted = (first..to).find(|page| flags[file][*page as usize]);
                let got = cache.take_first_dirty_pages(file, first, to);
                prop_assert_eq!(got.map(|pages| pages.first), wanted);
                let Some(pages) = got else { continue };
                let run = (pages.first..to).take_while(|page| flags[file][*page as usize]).count();
                prop_assert_eq!(pages.count, (run as u64).min(REQUEST));
                flags[file][pages.first as usize..][..pages.count as usize].fill(false);
                let number = cache.begin_write_back(pages);
                cache.in_flight += 1;
                prop_assert_eq!(cache.oldest_write_back_upto(file, number), Some(number));
                cache.count_written_pages(number, pages);
                prop_assert_eq!(cache.oldest_write_back_upto(file, number), None);
                taken += pages.count;
            }
            let dirty = flags.iter().flatten().filter(|dirty| **dirty).count() as u64;
            prop_assert_eq!(cache.dirty_page_count(), dirty);
            prop_assert_eq!((cache.totals.written, cache.totals.dirtied), (taken, taken + dirty));
        }

        #[test]
        fn memory_has_no_more_pages_than_it_can_have(
            steps in prop::collection::vec((0_u64..5000, 1_u64..100), 1..200),
        ) {
            let mut cache = cache(1000);
            for (first, count) in steps {
                cache.remember_cached_pages(Pages { file: 0, first, count });
                let there: u32 = cache.cached.values().map(|cached| cached.count_ones()).sum();
                prop_assert_eq!(u64::from(there), cache.in_memory);
                prop_assert!(cache.in_memory <= 1000);
            }
        }

        #[test]
        fn the_kernel_writes_back_until_no_more_than_the_background_share_is_dirty(
            writes in prop::collection::vec((0_usize..2, 0_u64..5000, 1_u64..400), 1..60),
            old in any::<bool>(),
        ) {
            let mut cache = cache(10_000);
            for (file, first, count) in writes {
                cache.mark_pages_dirty(0, Pages { file, first, count });
            }
            let before = cache.dirty_page_count();
            let mut round = Round { old, ..Round::default() };
            let mut taken = 0;
            while let Some(pages) = cache.take_next_pages_for_flusher(OLD_AFTER, &mut round) {
                taken += pages.count;
            }
            let left = if old { 0 } else { before.min(1000) };
            prop_assert_eq!(taken, before - cache.dirty_page_count());
            prop_assert!(cache.dirty_page_count() <= left && (old || cache.dirty_page_count() + REQUEST >= left));
        }
    }

    #[test]
    fn a_write_pays_for_a_new_page_once() {
        let mut cache = cache(1000);
        let pages = |first, count| Pages {
            file: 0,
            first,
            count,
        };
        assert_eq!(cache.begin_write(pages(0, 2)), 6);
        // Another client writes the same two pages, and a third one begins in their middle.
        assert_eq!(cache.begin_write(pages(0, 2)), 2);
        assert_eq!(cache.begin_write(pages(1, 3)), 1 + 2 * 3);
        assert_eq!(
            cache.begin_write(Pages {
                file: 1,
                ..pages(0, 1)
            }),
            3
        );
        // Memory for 1000 pages drops clean ones, which are new again; dirty ones stay.
        cache.mark_pages_dirty(0, pages(2, 1));
        cache.begin_write(pages(100, 1000));
        assert_eq!(cache.begin_write(pages(0, 1)), 3);
        assert_eq!(cache.begin_write(pages(2, 1)), 1);
    }

    #[test]
    fn a_writer_goes_faster_below_the_middle_and_stops_at_the_limit() {
        let cache = cache(100_000);
        let at = |dirty| cache.rate_factor_in_1024ths(dirty);
        assert_eq!((at(15_000), at(17_500), at(20_000)), (2048, 1024, 0));
        assert!((1024..1200).contains(&at(16_500)) && (880..1024).contains(&at(18_500)));
    }
}
