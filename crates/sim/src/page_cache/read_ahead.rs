//! Read-ahead: pages that the kernel reads beyond a process's request.
//!
//! Rules as in `mm/readahead.c` and `filemap_get_pages()` (`mm/filemap.c`), Linux 6.1, 6.12 and 7.3. Each open file has a
//! window, the last stretch read ahead, with a mark on a page. A missing page begins a window; a read up to the mark begins the
//! next window, up to twice as large.

use wakepath_units::KernelVersion;
use wakepath_workloads::fio::ReadHint;

/// Largest chunk in pages without read-ahead: 2 MiB.
const FORCED_CHUNK: u64 = 512;

/// Highest order of a large folio: 2 MiB.
const MAX_ORDER: u32 = 9;

/// The first kernel in which windows do not grow at their own mark: assumed, between 6.1 and 6.12.
const GROWS_LATER: (u16, u16, u16) = (6, 12, 0);
/// The first kernel whose windows have growing folios, also on block devices: assumed, between 6.12 and 6.18.
const FOLIOS: (u16, u16, u16) = (6, 17, 0);
/// The first kernel that counts all cached pages in front of a page: assumed, between 6.18 and 7.3.
const COUNTS_ALL: (u16, u16, u16) = (7, 0, 0);

/// Kernels whose rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Linux 6.1: a window that begins at its own mark grows at once.
    Linux6_1,
    /// Linux 6.12.
    Linux6_12,
    /// Linux 6.18: pages of a window lie in folios, which grow from window to window.
    Linux6_18,
    /// Linux 7.3: the kernel counts one more cached page in front of a missing page.
    Linux7_3,
}

impl Generation {
    /// A kernel's rules; the newest rules if the kernel is not known.
    pub(crate) fn for_kernel(kernel: Option<KernelVersion>) -> Self {
        match kernel.map(KernelVersion::release) {
            Some(release) if release < GROWS_LATER => Self::Linux6_1,
            Some(release) if release < FOLIOS => Self::Linux6_12,
            Some(release) if release < COUNTS_ALL => Self::Linux6_18,
            _ => Self::Linux7_3,
        }
    }

    /// Whether the pages of a window lie in folios that grow.
    pub(super) fn has_growing_folios(self) -> bool {
        matches!(self, Self::Linux6_18 | Self::Linux7_3)
    }

    /// Most pages that a read copies at a time.
    pub(crate) fn pages_per_batch(self) -> u64 {
        match self {
            Self::Linux6_1 => 15,
            Self::Linux6_12 | Self::Linux6_18 | Self::Linux7_3 => 31,
        }
    }
}

/// How a job's files are read ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAheadRule {
    pub(super) generation: Generation,
    /// Most pages in a window, the hint included; 0: no read-ahead.
    pub(super) most: u64,
    /// Pages in the largest request, up to which a single read may exceed the window.
    pub(super) largest_request: u64,
    /// Whether reads count as random: the kernel reads exactly the requested pages.
    pub(super) exact: bool,
}

impl ReadAheadRule {
    /// The rule for a job's files under a hint, with a device window in pages.
    pub(crate) fn new(
        generation: Generation,
        window: u64,
        largest_request: u64,
        hint: ReadHint,
    ) -> Self {
        Self {
            generation,
            most: match hint {
                ReadHint::Sequential => window * 2,
                ReadHint::None | ReadHint::Random => window,
            },
            largest_request,
            exact: hint == ReadHint::Random || window == 0,
        }
    }

    /// Most pages in a window for a read with so many pages.
    fn most_for_read(&self, pages: u64) -> u64 {
        if pages > self.most && self.largest_request > self.most {
            pages.min(self.largest_request)
        } else {
            self.most
        }
    }
}

/// A stretch in a file to read, except for cached pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(super) first: u64,
    pub(super) count: u64,
    /// The page whose folio is marked.
    pub(super) marked: Option<u64>,
    /// Highest order of the stretch's folios; 0: single pages.
    pub(super) order: u32,
}

impl Stretch {
    /// Whether the stretch has a page.
    pub(super) fn has_page(&self, page: u64) -> bool {
        (self.first..self.first + self.count).contains(&page)
    }

    /// Number of pages in the stretch's folio from `page` on: as many as alignment and the stretch's end allow.
    pub(super) fn folio_pages_at(&self, page: u64) -> u64 {
        let aligned = page.trailing_zeros().min(self.order);
        let left = self.first + self.count - page;
        1 << aligned.min(left.max(1).ilog2())
    }

    /// A single page without a mark.
    pub(super) fn for_one_page(page: u64) -> Self {
        Self {
            first: page,
            count: 1,
            marked: None,
            order: 0,
        }
    }
}

/// A marked folio: its first page, and its number of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(super) first: u64,
    pub(super) count: u64,
}

/// Questions of the rules about a file's cached pages.
pub(crate) trait CachedPages {
    /// Number of cached pages in front of `page` by the kernel's count with `most` looks, and whether the pages go back to the
    /// file's begin. From `most` cached pages the kernel counts one fewer, unless `counts_all`.
    fn count_cached_before(&self, page: u64, most: u64, counts_all: bool) -> (u64, bool);
    /// The first missing page from `page` on, as the kernel finds one with `most` looks; `None`: all seem cached.
    fn find_missing_from(&self, page: u64, most: u64) -> Option<u64>;
    /// Number of the file's last page.
    fn last_page(&self) -> u64;
}

/// An open file's window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    start: u64,
    size: u64,
    /// Pages in the window from the mark on.
    ahead: u64,
    /// Highest order among the window's folios.
    order: u32,
    /// Page with the byte behind the last read; `None` before the first read.
    previous: Option<u64>,
}

impl Window {
    /// Notes a read that ended in front of a byte, with `page` bytes per page.
    pub(crate) fn note_end_of_read(&mut self, byte: u64, page: u64) {
        self.previous = Some(byte / page);
    }

    /// The kernel's reads for a missing page `index`, with `wanted` pages left in the read.
    pub(crate) fn read_at_missing_page(
        &mut self,
        rule: &ReadAheadRule,
        cached: &impl CachedPages,
        index: u64,
        wanted: u64,
    ) -> Vec<Stretch> {
        if rule.exact {
            let wanted = if rule.most == 0 { 1 } else { wanted };
            return exact_stretches(rule, cached, index, wanted);
        }
        let most = rule.most_for_read(wanted);
        if rule.generation == Generation::Linux6_1
            && index > 0
            && (self.is_marked_at(index, 1) || index == self.start + self.size)
        {
            self.move_on(most);
            return self.stretch_of_window(rule, cached, index, most);
        }
        let follows = self
            .previous
            .is_some_and(|previous| index == previous || index == previous + 1);
        if index == 0 || wanted > most || follows {
            self.begin_at(rule, index, wanted, most);
            return self.stretch_of_window(rule, cached, index, most);
        }
        let counts_all = rule.generation == Generation::Linux7_3;
        let (history, from_start) = cached.count_cached_before(index, most, counts_all);
        if history <= wanted {
            // A small random read leaves the window as it is.
            return plain_stretch(cached, index, wanted, 0);
        }
        // Pages cached from the file's start on show a long read.
        let likely = if from_start { history * 2 } else { history };
        self.start = index;
        self.size = (likely + wanted).min(most);
        self.ahead = 1;
        self.order = 0;
        self.stretch_of_window(rule, cached, index, most)
    }

    /// The kernel's reads for a fault on a missing page of a mapping without advice: a window around the page
    /// (`do_sync_mmap_readahead()`, `mm/filemap.c`).
    pub(super) fn read_around(
        &mut self,
        rule: &ReadAheadRule,
        cached: &impl CachedPages,
        index: u64,
    ) -> Vec<Stretch> {
        self.start = index.saturating_sub(rule.most / 2);
        self.size = rule.most;
        self.ahead = rule.most / 4;
        self.order = 0;
        if rule.generation.has_growing_folios() {
            self.stretch_of_folios(cached)
        } else {
            plain_stretch(cached, self.start, self.size, self.ahead)
        }
    }

    /// The kernel's reads when a read with `wanted` pages left comes to a marked folio.
    pub(crate) fn read_at_mark(
        &mut self,
        rule: &ReadAheadRule,
        cached: &impl CachedPages,
        mark: Mark,
        wanted: u64,
    ) -> Vec<Stretch> {
        if rule.most == 0 {
            return Vec::new();
        }
        let (index, most) = (mark.first, rule.most_for_read(wanted));
        if rule.generation == Generation::Linux6_1 && index == 0 {
            self.begin_at(rule, index, wanted, most);
            return self.stretch_of_window(rule, cached, index, most);
        }
        let follows = rule.generation == Generation::Linux6_1 && index == self.start + self.size;
        if self.is_marked_at(index, mark.count) || follows {
            self.move_on(most);
        } else {
            // Another reader's mark: the other window ends at the next missing page.
            let missing = match cached.find_missing_from(index + 1, most) {
                Some(page) => page,
                // Linux 6.1 takes the last page in sight.
                None if rule.generation == Generation::Linux6_1 => index + most,
                None => return Vec::new(),
            };
            let there = missing - index;
            if there > most {
                return Vec::new();
            }
            self.start = missing;
            self.size = next_size(there + wanted, most);
            self.ahead = self.size;
        }
        if rule.generation.has_growing_folios() {
            self.end_at_folio_boundary(most);
        }
        self.stretch_of_window(rule, cached, index, most)
    }

    /// Whether the present window's mark is on the folio from `index` on, with so many pages.
    fn is_marked_at(&self, index: u64, folio: u64) -> bool {
        let marked = (self.start + self.size).saturating_sub(self.ahead);
        index == marked / folio * folio
    }

    /// Begins a window at a missing page, for a read with `wanted` pages.
    fn begin_at(&mut self, rule: &ReadAheadRule, index: u64, wanted: u64, most: u64) {
        self.start = index;
        self.size = first_size(wanted, most);
        self.ahead = match rule.generation {
            _ if self.size > wanted => self.size - wanted,
            Generation::Linux6_1 => self.size,
            Generation::Linux6_12 | Generation::Linux6_18 | Generation::Linux7_3 => self.size / 2,
        };
        self.order = 0;
    }

    /// Moves the window behind itself.
    fn move_on(&mut self, most: u64) {
        self.start += self.size;
        self.size = self.size.max(next_size(self.size, most));
        self.ahead = self.size;
    }

    /// Cuts the window after the last whole folio.
    fn end_at_folio_boundary(&mut self, most: u64) {
        self.order += 2;
        let align = 1 << self.order.min(most.trailing_zeros());
        let end = self.start + self.size;
        let aligned = end / align * align;
        if aligned > self.start {
            self.size -= end - aligned;
        }
        self.ahead = self.size;
    }

    /// The window as a stretch to read, within the file.
    fn stretch_of_window(
        &mut self,
        rule: &ReadAheadRule,
        cached: &impl CachedPages,
        index: u64,
        most: u64,
    ) -> Vec<Stretch> {
        if rule.generation.has_growing_folios() {
            return self.stretch_of_folios(cached);
        }
        if rule.generation == Generation::Linux6_1 && index == self.start && self.size == self.ahead
        {
            // The read would come to the mark at once: the next window joins the present window.
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.ahead = more;
                self.size += more;
            } else {
                (self.size, self.ahead) = (most, most / 2);
            }
        }
        plain_stretch(cached, self.start, self.size, self.ahead)
    }

    /// The window as a stretch in folios.
    fn stretch_of_folios(&mut self, cached: &impl CachedPages) -> Vec<Stretch> {
        let (last, end) = (cached.last_page(), self.start + self.size);
        if self.start > last || self.size == 0 {
            return Vec::new();
        }
        self.order = self.order.min(MAX_ORDER).min(self.size.ilog2());
        vec![Stretch {
            first: self.start,
            count: end.min(last + 1) - self.start,
            // After a window up to the file's end comes no other window.
            marked: (last > end - 1).then_some(end - self.ahead),
            order: self.order,
        }]
    }
}

/// A stretch of single pages within the file, with the mark in front of the last `ahead` pages.
fn plain_stretch(cached: &impl CachedPages, first: u64, count: u64, ahead: u64) -> Vec<Stretch> {
    let last = cached.last_page();
    if first > last || count == 0 {
        return Vec::new();
    }
    let count = count.min(last + 1 - first);
    let mark = count.checked_sub(ahead).filter(|at| *at < count);
    vec![Stretch {
        first,
        count,
        marked: mark.map(|at| first + at),
        order: 0,
    }]
}

/// Exactly the pages asked for, in chunks.
fn exact_stretches(
    rule: &ReadAheadRule,
    cached: &impl CachedPages,
    first: u64,
    wanted: u64,
) -> Vec<Stretch> {
    let end = first + wanted.min(rule.largest_request.max(rule.most));
    let chunks = (first..end).step_by(FORCED_CHUNK as usize);
    let stretches = chunks
        .map(|first| plain_stretch(cached, first, FORCED_CHUNK.min(end - first), 0))
        .collect::<Vec<_>>();
    stretches.concat()
}

/// Size in pages for a first window, after a read with `wanted` pages.
fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.max(1).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// Size in pages for the window after a window with `size` pages.
fn next_size(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        size * 4
    } else if size <= most / 2 {
        size * 2
    } else {
        most
    }
}
