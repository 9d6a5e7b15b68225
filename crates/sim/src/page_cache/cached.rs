//! Pages that a read finds: cached, marked, on the way from the drives, or missing.

use crate::page_cache::caller::Reading;
use crate::page_cache::pages::{
    Pages, REQUEST, WORD, Words, count_page_bits, run_of_bits, set_page_bits,
};
use crate::page_cache::read_ahead::{CachedPages, Mark, Stretch};
use crate::page_cache::state::PageCache;

/// A read's next pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextPages {
    /// The first page is missing.
    Missing,
    /// `count` pages are cached or about to be. `mark`: the last page is marked. `arriving`: number of the request for the last page.
    Cached {
        count: u64,
        mark: Option<Mark>,
        arriving: Option<u64>,
    },
}

/// A read's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// Submit requests for pages, each with its number.
    Submit(Vec<(u64, Pages)>),
    /// Wait for the request with this number.
    Wait(u64),
    /// Copy cached pages.
    Copy(Pages),
}

impl PageCache {
    /// The next step for a read with these pages `left`; copied pages are no longer left.
    pub(crate) fn next_step_of_read(
        &mut self,
        file: usize,
        reading: &mut Reading,
        left: &mut Pages,
    ) -> ReadStep {
        let most = reading.rule.generation.pages_per_batch();
        let pages = FilePages::new(self, file, reading.last_page);
        let stretches = match self.find_next_pages(*left, most) {
            NextPages::Missing => {
                let window = &mut reading.window;
                let mut read =
                    window.read_at_missing_page(&reading.rule, &pages, left.first, left.count);
                if !read.iter().any(|stretch| stretch.has_page(left.first)) {
                    // A page in no window is read alone.
                    read.push(Stretch::for_one_page(left.first));
                }
                read
            }
            NextPages::Cached {
                mark: Some(mark), ..
            } => {
                let wanted = left.page_after_last().saturating_sub(mark.first);
                let window = &mut reading.window;
                let read = window.read_at_mark(&reading.rule, &pages, mark, wanted);
                self.arrivals.marks.remove(&(file, mark.first));
                read
            }
            NextPages::Cached {
                count,
                arriving: Some(number),
                ..
            } => {
                // Who must not wait first copies what is there.
                return if reading.defers && count > 1 {
                    ReadStep::Copy(left.take_first_pages(count - 1))
                } else {
                    ReadStep::Wait(number)
                };
            }
            NextPages::Cached { count, .. } => return ReadStep::Copy(left.take_first_pages(count)),
        };
        ReadStep::Submit(self.begin_arrivals(file, stretches))
    }

    /// Makes the missing pages of stretches arrive. Returns the requests for them, by number.
    pub(super) fn begin_arrivals(
        &mut self,
        file: usize,
        stretches: Vec<Stretch>,
    ) -> Vec<(u64, Pages)> {
        let mut requests = Vec::new();
        for stretch in stretches {
            requests.extend(self.begin_arrival(file, stretch, REQUEST));
        }
        requests
    }

    /// The next pages for a read, up to `most`.
    fn find_next_pages(&self, pages: Pages, most: u64) -> NextPages {
        let count = self.cached_run_from(pages.file, pages.first, pages.count.min(most));
        if count == 0 {
            return NextPages::Missing;
        }
        let mut found = Pages { count, ..pages };
        let arriving = self.arrivals.first_arriving(found);
        if let Some((page, _)) = arriving {
            found.count = page + 1 - found.first;
        }
        let mark = self.arrivals.first_mark(found);
        if let Some(mark) = mark {
            found.count = mark.first.max(found.first) + 1 - found.first;
        }
        let last = found.page_after_last() - 1;
        NextPages::Cached {
            count: found.count,
            mark,
            arriving: arriving
                .filter(|(page, _)| *page == last)
                .map(|(_, number)| number),
        }
    }

    /// Makes a stretch's missing pages arrive. Returns the requests, each for adjacent pages, by number.
    fn begin_arrival(&mut self, file: usize, stretch: Stretch, largest: u64) -> Vec<(u64, Pages)> {
        self.lay_out_folios(file, &stretch);
        let mut requests = Vec::new();
        let (mut at, end) = (stretch.first, stretch.first + stretch.count);
        while at < end {
            at += self.cached_run_from(file, at, end - at);
            let count = self.missing_run_from(file, at, (end - at).min(largest));
            if count == 0 {
                continue;
            }
            let pages = Pages {
                file,
                first: at,
                count,
            };
            let number = self.next_request_number();
            self.remember_cached_pages_within_memory(pages, number);
            self.totals.read += count;
            self.totals.read_requests += 1;
            requests.push((number, pages));
            at += count;
        }
        requests
    }

    /// Lays out a stretch's missing pages in folios, and marks a folio. After a conflict with a cached page, pages are single.
    fn lay_out_folios(&mut self, file: usize, stretch: &Stretch) {
        let end = stretch.first + stretch.count;
        let mut at = stretch.first;
        while stretch.order > 0 && at < end {
            let count = stretch.folio_pages_at(at);
            if self.missing_run_from(file, at, count) < count {
                break;
            }
            if count > 1 {
                let (first, count) = (at + 1, count - 1);
                set_page_bits(&mut self.arrivals.tails, Pages { file, first, count });
            }
            if (stretch.marked).is_some_and(|page| (at..at + count).contains(&page)) {
                self.arrivals.marks.insert((file, at), count);
            }
            at += count;
        }
        if let Some(page) = stretch.marked
            && page >= at
            && self.missing_run_from(file, page, 1) == 1
        {
            self.arrivals.marks.insert((file, page), 1);
        }
    }

    /// Work in cycles for the pages of a request that reads them into the cache, beyond the copy and the request.
    pub(crate) fn work_for_new_pages(&self, pages: Pages) -> u64 {
        let in_folios = count_page_bits(&self.arrivals.tails, pages);
        self.setup.new_page * (pages.count - in_folios) + self.setup.folio_page * in_folios
    }

    /// Remembers a request's pages as cached, and keeps the pages in memory until they arrive.
    fn remember_cached_pages_within_memory(&mut self, pages: Pages, number: u64) {
        self.arrivals.arriving.insert(number, pages);
        self.remember_cached_pages(pages);
    }

    /// Drops a file's cached pages as `invalidate` does, except dirty, arriving and mapped pages.
    pub(crate) fn drop_clean_pages_of_file(&mut self, file: usize) {
        let words = self.cached.range((file, 0)..=(file, u64::MAX));
        let places: Vec<(usize, u64)> = words.map(|(place, _)| *place).collect();
        for place in places {
            let dirty = self.dirty_words.get(&place).copied().unwrap_or(0);
            let busy = dirty | self.mappings.pages_in_use(place);
            let kept = busy | self.arrivals.drop_marks_and_return_arriving(place);
            let Some(cached) = self.cached.get_mut(&place) else {
                continue;
            };
            self.in_memory -= u64::from((*cached & !kept).count_ones());
            *cached &= kept;
            if *cached == 0 {
                self.cached.remove(&place);
            }
        }
    }

    /// Number of adjacent cached pages from a page on, up to `most`.
    fn cached_run_from(&self, file: usize, page: u64, most: u64) -> u64 {
        self.run_from(file, page, most, true)
    }

    /// Number of adjacent missing pages from a page on, up to `most`.
    fn missing_run_from(&self, file: usize, page: u64, most: u64) -> u64 {
        self.run_from(file, page, most, false)
    }

    /// Number of adjacent pages from a page on, all cached or all missing, up to `most`.
    fn run_from(&self, file: usize, page: u64, most: u64, cached: bool) -> u64 {
        run_of_bits(&self.cached, (file, page), most, cached)
    }
}

/// A file's cached pages.
pub(super) struct FilePages<'a> {
    cache: &'a PageCache,
    file: usize,
    last_page: u64,
}

impl<'a> FilePages<'a> {
    pub(super) fn new(cache: &'a PageCache, file: usize, last_page: u64) -> Self {
        Self {
            cache,
            file,
            last_page,
        }
    }

    /// The page after the folio that has a page.
    pub(super) fn page_after_folio(&self, page: u64) -> u64 {
        let mut end = page + 1;
        while self.is_set(&self.cache.arrivals.tails, end) {
            end += 1;
        }
        end
    }

    /// All pages of the folio that has a page.
    pub(super) fn folio_with_page(&self, page: u64) -> Pages {
        let first = self.first_page_of_folio(page);
        Pages {
            file: self.file,
            first,
            count: self.page_after_folio(page) - first,
        }
    }

    /// The first page of the folio that has a page.
    pub(super) fn first_page_of_folio(&self, mut page: u64) -> u64 {
        while page > 0 && self.is_set(&self.cache.arrivals.tails, page) {
            page -= 1;
        }
        page
    }

    /// Whether a page of the file is in a set.
    fn is_set(&self, words: &Words, page: u64) -> bool {
        let bits = words.get(&(self.file, page / WORD)).copied().unwrap_or(0);
        (bits >> (page % WORD)) & 1 == 1
    }
}

impl CachedPages for FilePages<'_> {
    // The kernel looks up the first page, which may be in a folio, and then goes on slot by slot from the folio's first page. So its
    // count is off by the page's place in the folio. In the next node of 64 slots it goes on at the place of the index that it has
    // counted to.

    fn count_cached_before(&self, page: u64, most: u64, counts_all: bool) -> (u64, bool) {
        let mut index = page - 1;
        let mut slot = self.first_page_of_folio(index);
        for _ in 1..most {
            if !self.is_set(&self.cache.cached, slot) {
                return (page - 1 - index, false);
            }
            if slot == 0 {
                return (page - index, index == 0);
            }
            index -= 1;
            slot = if slot.is_multiple_of(WORD) {
                match (slot / WORD).checked_sub(1) {
                    Some(node) => node * WORD + index % WORD,
                    None => return (page - 1 - index, false),
                }
            } else {
                slot - 1
            };
        }
        if !self.is_set(&self.cache.cached, slot) {
            return (page - 1 - index, false);
        }
        (
            page - 1 - index + u64::from(counts_all),
            counts_all && index == 0,
        )
    }

    fn find_missing_from(&self, page: u64, most: u64) -> Option<u64> {
        let mut slot = self.first_page_of_folio(page);
        for index in page..page + most {
            if !self.is_set(&self.cache.cached, slot) {
                return Some(index);
            }
            slot = if (slot + 1).is_multiple_of(WORD) {
                slot + 1 + (index + 1) % WORD
            } else {
                slot + 1
            };
        }
        None
    }

    fn last_page(&self) -> u64 {
        self.last_page
    }
}

#[cfg(test)]
mod tests {
    use wakepath_workloads::fio::ReadHint;

    use super::*;
    use crate::page_cache::pages::PAGE;
    use crate::page_cache::read_ahead::{Generation, ReadAheadRule};
    use crate::page_cache::setup::PageCacheSetup;

    /// A page cache with room for all.
    fn large_cache() -> PageCache {
        PageCache::new(PageCacheSetup {
            pages: 1 << 30,
            call: 1,
            page: 1,
            cached_page: 1,
            read_page: 1,
            write_back: 1,
            new_page: 3,
            folio_page: 2,
            mapped_io: 1,
            mapped_page: 1,
            journal: None,
            files: 1,
            remembers: true,
        })
    }

    /// The requests, as first page and number of pages, that a read causes if each request is served at once when waited for.
    fn requests_of_read(
        cache: &mut PageCache,
        reading: &mut Reading,
        (first, count): (u64, u64),
    ) -> Vec<(u64, u64)> {
        let mut left = Pages {
            file: 0,
            first,
            count,
        };
        let mut requests = Vec::new();
        while left.count > 0 {
            match cache.next_step_of_read(0, reading, &mut left) {
                ReadStep::Submit(new) => {
                    requests.extend(new.iter().map(|(_, pages)| (pages.first, pages.count)));
                }
                ReadStep::Wait(number) => cache.arrivals.end_arrival(number),
                ReadStep::Copy(pages) if reading.rule.generation == Generation::Linux6_1 => {
                    (reading.window).note_end_of_read(pages.page_after_last() * PAGE, PAGE);
                }
                ReadStep::Copy(_) => {}
            }
        }
        reading
            .window
            .note_end_of_read((first + count) * PAGE, PAGE);
        requests
    }

    /// Joins requests that follow each other: how the kernel cuts a stretch into bios is no rule of the read-ahead.
    fn join(requests: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, count) in requests {
            match joined.last_mut() {
                Some((start, pages)) if *start + *pages == *first => *pages += count,
                _ => joined.push((*first, *count)),
            }
        }
        joined
    }

    fn parse_pair(text: &str) -> (u64, u64) {
        let (first, count) = text.split_once('+').unwrap();
        (first.parse().unwrap(), count.parse().unwrap())
    }

    /// Checks a recording of the kernel's requests, made by `rig/read_ahead.py`.
    fn check_recording(generation: Generation, recording: &str) {
        let mut lines = recording.lines().filter(|line| !line.starts_with('#'));
        let mut device = lines.next().unwrap().split(' ').skip(1);
        let mut next_number = || device.next().unwrap().parse::<u64>().unwrap();
        let (last_page, largest) = (next_number() - 1, next_number());
        let mut cases = 0;
        for line in lines {
            let mut words = line.splitn(3, ' ');
            let kib: u64 = words.next().unwrap().parse().unwrap();
            let hint_name = words.next().unwrap();
            let hint = match hint_name {
                "sequential" => ReadHint::Sequential,
                "normal" => ReadHint::None,
                _ => ReadHint::Random,
            };
            let mut cache = large_cache();
            let rule = ReadAheadRule::new(generation, kib / 4, largest, hint);
            let mut reading = Reading::new(rule, last_page, true);
            for (number, read) in words.next().unwrap().split(';').enumerate() {
                let (asked, got) = read.split_once(':').unwrap();
                let got: Vec<(u64, u64)> = (got
                    .split(',')
                    .filter(|part| !part.is_empty())
                    .map(parse_pair))
                .collect();
                let modelled = requests_of_read(&mut cache, &mut reading, parse_pair(asked));
                assert_eq!(
                    join(&modelled),
                    join(&got),
                    "{generation:?}, {kib} KiB, {hint_name}, read {number}: {asked}; left: the model"
                );
            }
            cases += 1;
        }
        assert!(cases > 50, "only {cases} cases");
    }

    #[test]
    fn requests_are_those_of_linux_6_1() {
        check_recording(
            Generation::Linux6_1,
            include_str!("../../tests/data/read-ahead-6.1.txt"),
        );
    }

    #[test]
    fn requests_are_those_of_linux_6_12() {
        check_recording(
            Generation::Linux6_12,
            include_str!("../../tests/data/read-ahead-6.12.txt"),
        );
    }

    #[test]
    fn requests_are_those_of_linux_6_18() {
        check_recording(
            Generation::Linux6_18,
            include_str!("../../tests/data/read-ahead-6.18.txt"),
        );
    }

    #[test]
    fn requests_are_those_of_linux_7_3() {
        check_recording(
            Generation::Linux7_3,
            include_str!("../../tests/data/read-ahead-7.3.txt"),
        );
    }
}
