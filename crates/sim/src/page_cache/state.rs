//! The page cache: cached and dirty pages by file, and the writers' pace.
//!
//! Rules and constants follow Linux 6.12 (`mm/page-writeback.c`, `fs/fs-writeback.c`), unless said otherwise.

use std::collections::BTreeMap;

use wakepath_hardware::Machine;

use crate::block::request::Request;
use crate::core::basics::{Cycles, TaskId};

/// Bytes per page.
pub(crate) const PAGE: u64 = 4096;

/// Pages per word.
const WORD: u64 = u64::BITS as u64;

/// Shares of memory in percent: the kernel writes back in the background from the first on, and writers cannot exceed
/// the second (`vm.dirty_background_ratio`, `vm.dirty_ratio`).
const BACKGROUND_PERCENT: u64 = 10;
const LIMIT_PERCENT: u64 = 20;

/// How often the kernel looks for old data, and how old those are, in ns (`vm.dirty_writeback_centisecs`,
/// `vm.dirty_expire_centisecs`).
pub(crate) const LOOK_EVERY: u64 = 5_000_000_000;
pub(crate) const OLD_AFTER: u64 = 30_000_000_000;

/// Pages in the largest request, 1280 KiB (`BLK_DEF_MAX_SECTORS_CAP`, include/linux/blkdev.h).
pub(crate) const REQUEST: u64 = 320;

/// Most write-back requests in flight: beside reads the first limit in `blk-wbt` (`RWB_DEF_DEPTH`), otherwise three
/// quarters of the 1023 tags in an NVMe queue, the highest limit.
const DEPTH_BESIDE_READS: usize = 16;
const DEPTH: usize = 767;

/// A drive's assumed write rate in pages per second until measured (`INIT_BW`, 100 MB/s).
const FIRST_BANDWIDTH: u64 = 25_600;

/// How often the bandwidth is estimated, and the smoothing time, in ns.
const ESTIMATE_EVERY: u64 = 200_000_000;
const SMOOTH_OVER: u64 = 3_000_000_000;

/// A writer's longest pause, and the share of write time between two pauses, in ns.
const LONGEST_PAUSE: u64 = 200_000_000;
const TURN: u64 = 10_000_000;

/// Pages written back by the kernel in one file before the next file's turn: half a second at the first bandwidth.
const CHUNK: u64 = FIRST_BANDWIDTH / 2;

/// A page cache's cost and size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageCacheSetup {
    /// Capacity in pages.
    pub(super) pages: u64,
    /// Work for a write's system call, and for each page written.
    pub(super) call: Cycles,
    pub(super) page: Cycles,
    /// Work for each page written back, beyond the request's own.
    pub(super) write_back: Cycles,
    /// Files over all processes.
    pub(super) files: usize,
    /// Somebody reads from the drives as well.
    pub(super) reads: bool,
    /// Some job asks what is cached.
    pub(super) remembers: bool,
}

impl PageCacheSetup {
    /// A machine's page cache for `files` files. `reads`: some job also reads from the drives. `remembers`: some job
    /// asks what is cached.
    pub(crate) fn new(machine: &Machine, files: usize, reads: bool, remembers: bool) -> Self {
        let figures = &machine.page_cache;
        // The machine's figures for reads hold for writes too, unless writes have figures.
        let page = match &machine.io_path.page_cache_kcycles {
            reading if reading.is_given() && figures.is_default() => reading,
            _ => &figures.page_kcycles,
        };
        Self {
            pages: machine.page_cache_pages(),
            call: figures.write_kcycles.kilocycles_to_cycles(),
            page: page.kilocycles_to_cycles(),
            write_back: figures.write_back_kcycles.kilocycles_to_cycles(),
            files,
            reads,
            remembers,
        }
    }

    /// Dirty pages from which on the kernel writes back.
    fn background(&self) -> u64 {
        self.pages * BACKGROUND_PERCENT / 100
    }

    /// Most dirty pages, including pages in flight to the drive.
    fn limit(&self) -> u64 {
        self.pages * LIMIT_PERCENT / 100
    }

    /// Most dirty pages without holding writers back.
    fn freerun(&self) -> u64 {
        self.background().midpoint(self.limit())
    }

    pub(super) fn depth(&self) -> usize {
        if self.reads {
            DEPTH_BESIDE_READS
        } else {
            DEPTH
        }
    }
}

/// Pages by file, each a bit in a word for 64 adjacent pages. No word is empty.
type Words = BTreeMap<(usize, u64), u64>;

/// A file, or a device.
#[derive(Clone, Debug, Default)]
struct File {
    dirty: u64,
    /// When the file became dirty, as far as the kernel knows.
    dirty_since: u64,
    /// The page from which on the kernel continues to write back.
    next: u64,
    /// Requests that write the file back, oldest first.
    in_flight: Vec<u64>,
}

/// Adjacent pages in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(super) file: usize,
    pub(super) first: u64,
    pub(super) count: u64,
}

#[derive(Debug)]
pub(crate) struct PageCache {
    pub(super) setup: PageCacheSetup,
    /// Cached pages, if any job asks, and their count.
    cached: Words,
    in_memory: u64,
    /// Dirty pages that no request writes back yet, and their count.
    dirty_words: Words,
    dirty: u64,
    files: Vec<File>,
    /// Pages in flight to the drive, and requests with such pages.
    on_the_way: u64,
    pub(super) in_flight: usize,
    /// The last request's number.
    last: u64,
    /// Where clean pages were last dropped.
    hand: (usize, u64),
    pace: Pace,
    pub(super) totals: Totals,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Pages that became dirty, pages written back, and pages dirty or in flight at the end.
    pub(super) dirtied: u64,
    pub(super) written: u64,
    pub(super) left: u64,
    /// Time with writers held back, in ns.
    pub(super) paused: u64,
}

/// The drives' write rate, and the writers that share the rate.
#[derive(Debug)]
struct Pace {
    /// Pages per second.
    bandwidth: u64,
    /// When it was last estimated, and how many pages had been written by then.
    at: u64,
    written: u64,
    /// Who has been held back since, and how many were in the time before.
    writers: Vec<TaskId>,
    sharing: u64,
}

/// A writer's own account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    /// Pages dirtied since the last look, and pages until the next look.
    dirtied: u64,
    looks_after: u64,
    /// When the last pause was over.
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
            dirty_words: Words::new(),
            dirty: 0,
            files: vec![File::default(); setup.files],
            on_the_way: 0,
            in_flight: 0,
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

    /// Counts until the run's end.
    pub(crate) fn into_totals(self) -> Totals {
        Totals {
            left: self.dirty + self.on_the_way,
            ..self.totals
        }
    }

    /// Dirty pages that no request writes back yet.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Whether more pages are dirty than the kernel leaves alone.
    pub(crate) fn has_much_to_write(&self) -> bool {
        self.dirty > self.setup.background()
    }

    /// Whether all these pages are cached.
    pub(crate) fn has(&self, pages: Pages) -> bool {
        pages.words().all(|(word, bits)| {
            (self.cached.get(&(pages.file, word))).is_some_and(|cached| cached & bits == bits)
        })
    }

    /// Caches pages just read or written.
    pub(crate) fn insert(&mut self, pages: Pages) {
        if self.setup.remembers {
            self.in_memory += set(&mut self.cached, pages);
            if self.in_memory > self.setup.pages {
                self.drop_clean();
            }
        }
    }

    /// Caches written pages. Returns how many of them were not dirty before.
    pub(crate) fn write(&mut self, now: u64, pages: Pages) -> u64 {
        self.insert(pages);
        let dirtied = set(&mut self.dirty_words, pages);
        let file = &mut self.files[pages.file];
        if file.dirty == 0 && dirtied > 0 {
            file.dirty_since = now;
        }
        file.dirty += dirtied;
        self.dirty += dirtied;
        self.totals.dirtied += dirtied;
        dirtied
    }

    /// Drops clean pages until the rest fits into memory, in order by file and page, from the last place on.
    fn drop_clean(&mut self) {
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
            self.in_memory -= u64::from((*cached & !dirty).count_ones());
            *cached &= dirty;
            if *cached == 0 {
                self.cached.remove(&place);
            }
            self.hand = (place.0, place.1 + 1);
        }
    }

    /// Takes the first dirty pages in a part of a file, at most a request's worth, to be written back.
    pub(crate) fn take(&mut self, file: usize, from: u64, to: u64) -> Option<Pages> {
        if self.files[file].dirty == 0 || from >= to {
            return None;
        }
        let last = to - 1;
        let first = (self.dirty_words)
            .range((file, from / WORD)..=(file, last / WORD))
            .find_map(|((_, word), dirty)| {
                let start = word * WORD;
                let skip = from.saturating_sub(start);
                let dirty = dirty & (u64::MAX << skip);
                (dirty != 0).then(|| start + u64::from(dirty.trailing_zeros()))
            })
            .filter(|first| *first < to)?;
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
        Some(Pages { file, first, count })
    }

    /// Whether the kernel's write-back has pages to take in a file: with many dirty pages in any file, otherwise only `old` ones.
    fn is_to_be_written(&self, file: usize, takes_old: bool, now: u64) -> bool {
        self.files.get(file).is_some_and(|file| {
            let is_old = takes_old && file.dirty_since.saturating_add(OLD_AFTER) <= now;
            file.dirty > 0 && (self.has_much_to_write() || is_old)
        })
    }

    /// The next pages that the kernel writes back alone, in round order.
    pub(crate) fn take_next(&mut self, now: u64, round: &mut Round) -> Option<Pages> {
        loop {
            let files = self.files.len();
            if round.left == 0 || !self.is_to_be_written(round.file, round.old, now) {
                let mut others = (1..=files).map(|n| (round.file + n) % files);
                round.file = others.find(|file| self.is_to_be_written(*file, round.old, now))?;
                round.left = CHUNK;
            }
            let at = round.file;
            let Some(pages) = self.take(at, self.files[at].next, u64::MAX) else {
                // Once round the file: pages dirty by now have become so meanwhile.
                self.files[at].next = 0;
                self.files[at].dirty_since = now;
                if self.files[at].dirty > 0 && !self.has_much_to_write() {
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

    /// A request with these pages goes to the drive. Returns the request's number.
    pub(crate) fn submitted(&mut self, pages: Pages) -> u64 {
        let number = self.number();
        self.in_flight += 1;
        self.files[pages.file].in_flight.push(number);
        number
    }

    /// The drive has written these pages.
    pub(crate) fn written(&mut self, number: u64, pages: Pages) {
        self.in_flight -= 1;
        self.on_the_way -= pages.count;
        self.totals.written += pages.count;
        self.files[pages.file].in_flight.retain(|n| *n != number);
    }

    /// The last request's number.
    pub(crate) fn last_request(&self) -> u64 {
        self.last
    }

    /// A number for a request without pages to write back.
    pub(crate) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The oldest request writing back a file, if numbered `upto` or lower.
    pub(crate) fn awaited(&self, file: usize, upto: u64) -> Option<u64> {
        let oldest = self.files[file].in_flight.first().copied();
        oldest.filter(|number| *number <= upto)
    }

    /// A writer has dirtied pages. Returns until when the writer pauses, if at all.
    ///
    /// As `balance_dirty_pages()`: the writer's rate is an equal share in the drives' write rate, faster or slower the
    /// farther the dirty pages are from the middle between free run and limit.
    pub(crate) fn balance(
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
        let (freerun, limit) = (self.setup.freerun(), self.setup.limit());
        if dirty <= freerun {
            writer.looks_after = (limit - dirty).isqrt().max(1);
            writer.paused_until = now;
            return None;
        }
        self.estimate(now, task);
        let share = self.pace.bandwidth / self.pace.sharing;
        let rate = (share * self.position(dirty) / 1024).max(1);
        let at_rate = u128::from(due) * 1_000_000_000 / u128::from(rate);
        let turn = at_rate.min(u128::from(LONGEST_PAUSE)) as u64;
        writer.looks_after = (rate * TURN / 1_000_000_000).clamp(1, REQUEST * 8);
        // Time spent to write these pages counts, unless long ago.
        let began = writer.paused_until.max(now.saturating_sub(LONGEST_PAUSE));
        let until = began + turn;
        writer.paused_until = until;
        (until > now).then(|| {
            self.totals.paused += until - now;
            until
        })
    }

    /// By how much a writer's rate differs from its share, in 1024ths: 1024 in the middle between free run and limit, 0 at
    /// the limit, twice as much at most.
    fn position(&self, dirty: u64) -> u64 {
        let (freerun, limit) = (self.setup.freerun(), self.setup.limit());
        let middle = freerun.midpoint(limit);
        let room = 1024 * (i128::from(middle) - i128::from(dirty));
        let off = (room / i128::from(limit - middle).max(1)).clamp(-1024, 1024);
        (1024 + off * off * off / (1024 * 1024)) as u64
    }

    /// Estimates the drives' write rate, and the number of sharing writers.
    fn estimate(&mut self, now: u64, task: TaskId) {
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

/// Sets the pages' bits. Returns how many were not set.
fn set(words: &mut Words, pages: Pages) -> u64 {
    let mut count = 0;
    for (word, bits) in pages.words() {
        let known = words.entry((pages.file, word)).or_default();
        let new = bits & !*known;
        *known |= bits;
        count += u64::from(new.count_ones());
    }
    count
}

/// The present call, for a process using the page cache, or for the flusher thread.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The task's file, and where the task begins there.
    pub(super) file: usize,
    pub(super) base: u64,
    pub(super) writer: Writer,
    pub(super) stage: Stage,
    /// The call's pages, and pages still to be copied or written back.
    pub(super) pages: Pages,
    pub(super) left: Pages,
    /// The call writes only a part of the first page, and of the last.
    pub(super) parts: [bool; 2],
    /// The call's read or write.
    pub(super) request: Request,
    /// Work for the present part.
    pub(super) work: Cycles,
    /// The call ends with the data on the media.
    pub(super) syncs: bool,
    /// The call flushes the drives, as its last action.
    pub(super) flushes: bool,
    /// The awaited request, unless the call awaits the whole file: a page's read, or the flush. 0: about to be
    /// submitted.
    pub(super) awaits: Option<u64>,
    /// The call awaits requests for the file up to this number.
    pub(super) upto: u64,
    /// A partly written page is read first, unless cached.
    pub(super) reads_parts: bool,
    /// Each write ends with the data on the media.
    pub(super) always_syncs: bool,
    /// The work before a sleep is done.
    pub(super) deactivated: bool,
    /// The awaited request, ended.
    pub(super) ended: Option<Request>,
}

/// A stage in a call, or in the kernel's write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is copied yet: do any pages have to be read first?
    Look,
    /// Go on to copy.
    Next,
    /// Copy these pages.
    Copy(Pages),
    /// Be held back until a time.
    Pause(u64),
    /// Look for pages to write back.
    WriteBack,
    /// Submit a request to read or write these pages; without pages: a flush.
    Issue(Pages),
    /// Look whether the awaited request has ended.
    Settle,
    /// Sleep until the awaited request has ended.
    Asleep,
    /// Go on after the sleep.
    Resume,
}

impl Caller {
    /// The kernel's flusher thread.
    pub(crate) fn flusher() -> Self {
        Self::new(usize::MAX, 0)
    }

    pub(super) fn new(file: usize, base: u64) -> Self {
        let none = Pages::none(file);
        Self {
            file,
            base,
            writer: Writer::default(),
            stage: Stage::WriteBack,
            pages: none,
            left: none,
            parts: [false; 2],
            request: Request::default(),
            work: 0,
            syncs: false,
            flushes: false,
            awaits: None,
            upto: 0,
            reads_parts: false,
            always_syncs: false,
            deactivated: false,
            ended: None,
        }
    }

    /// Begins a call for these pages.
    pub(crate) fn begin(&mut self, stage: Stage, pages: Pages) {
        self.stage = stage;
        self.flushes = false;
        (self.pages, self.left) = (pages, pages);
    }

    /// A partly written page not cached yet, if any.
    pub(crate) fn part_to_read(&self, cache: &PageCache) -> Option<Pages> {
        let Pages { file, first, count } = self.pages;
        let ends = [first, (first + count).saturating_sub(1)];
        let parts = ends.into_iter().zip(self.parts);
        let pages = parts.filter(|(_, part)| *part).map(|(first, _)| Pages {
            file,
            first,
            count: 1,
        });
        { pages }.find(|page| !cache.has(*page))
    }
}

/// The kernel's progress in a write-back round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    file: usize,
    /// Pages left in the file's turn.
    left: u64,
    /// The round looks for old data as well.
    pub(super) old: bool,
}

impl Pages {
    /// No page.
    pub(crate) fn none(file: usize) -> Self {
        Self {
            file,
            first: 0,
            count: 0,
        }
    }

    /// All pages in a file.
    pub(crate) fn all(file: usize) -> Self {
        Self {
            file,
            first: 0,
            count: u64::MAX,
        }
    }

    /// Takes the first pages off, at most `count`.
    pub(crate) fn split(&mut self, count: u64) -> Self {
        let first = Self {
            count: self.count.min(count),
            ..*self
        };
        self.first += first.count;
        self.count -= first.count;
        first
    }

    /// The page after the last page.
    pub(crate) fn end(self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// The pages with bytes from a part of a file.
    pub(crate) fn covering(file: usize, offset: u64, bytes: u64) -> Self {
        let first = offset / PAGE;
        Self {
            file,
            first,
            count: (offset + bytes).div_ceil(PAGE) - first,
        }
    }

    /// The words with these pages, and the bits there.
    fn words(self) -> impl Iterator<Item = (u64, u64)> {
        let end = self.first + self.count;
        let mut at = self.first;
        std::iter::from_fn(move || {
            let (word, bit) = (at / WORD, at % WORD);
            let run = (end - at).min(WORD - bit);
            at += run;
            (run > 0).then(|| (word, (u64::MAX >> (WORD - run)) << bit))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cache(pages: u64) -> PageCache {
        PageCache::new(PageCacheSetup {
            pages,
            call: 1,
            page: 1,
            write_back: 1,
            files: 2,
            reads: false,
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
                    prop_assert_eq!(cache.write(now, Pages { file, first, count }), new);
                    let all = Pages { file, first, count };
                    prop_assert!(cache.has(all), "{:?}", all);
                    continue;
                }
                let to = first + count;
                let wanted = (first..to).find(|page| flags[file][*page as usize]);
                let got = cache.take(file, first, to);
                prop_assert_eq!(got.map(|pages| pages.first), wanted);
                let Some(pages) = got else { continue };
                let run = (pages.first..to).take_while(|page| flags[file][*page as usize]).count();
                prop_assert_eq!(pages.count, (run as u64).min(REQUEST));
                flags[file][pages.first as usize..][..pages.count as usize].fill(false);
                let number = cache.submitted(pages);
                prop_assert_eq!(cache.awaited(file, number), Some(number));
                cache.written(number, pages);
                prop_assert_eq!(cache.awaited(file, number), None);
                taken += pages.count;
            }
            let dirty = flags.iter().flatten().filter(|dirty| **dirty).count() as u64;
            prop_assert_eq!(cache.dirty(), dirty);
            prop_assert_eq!((cache.totals.written, cache.totals.dirtied), (taken, taken + dirty));
        }

        #[test]
        fn memory_has_no_more_pages_than_it_can_have(
            steps in prop::collection::vec((0_u64..5000, 1_u64..100), 1..200),
        ) {
            let mut cache = cache(1000);
            for (first, count) in steps {
                cache.insert(Pages { file: 0, first, count });
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
                cache.write(0, Pages { file, first, count });
            }
            let before = cache.dirty();
            let mut round = Round { old, ..Round::default() };
            let mut taken = 0;
            while let Some(pages) = cache.take_next(OLD_AFTER, &mut round) {
                taken += pages.count;
            }
            let left = if old { 0 } else { before.min(1000) };
            prop_assert_eq!(taken, before - cache.dirty());
            prop_assert!(cache.dirty() <= left && (old || cache.dirty() + REQUEST >= left));
        }
    }

    #[test]
    fn a_writer_goes_faster_below_the_middle_and_stops_at_the_limit() {
        let cache = cache(100_000);
        let at = |dirty| cache.position(dirty);
        assert_eq!((at(15_000), at(17_500), at(20_000)), (2048, 1024, 0));
        assert!((1024..1200).contains(&at(16_500)) && (880..1024).contains(&at(18_500)));
    }
}
