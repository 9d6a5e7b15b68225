//! Mapped files: which pages a page fault maps, reads, and waits for.
//!
//! As `do_fault_around()` (`mm/memory.c`), `filemap_map_pages()` and `filemap_fault()` (`mm/filemap.c`), Linux 6.1 to 6.18: a fault
//! maps the cached pages around its page. If the page itself is missing or marked, the kernel reads ahead, waits, and tries again.

use wakepath_workloads::fio::ReadHint;

use crate::core::basics::{Cycles, TaskId};
use crate::page_cache::cached::FilePages;
use crate::page_cache::caller::Reading;
use crate::page_cache::mappings::MappedReads;
use crate::page_cache::pages::{Pages, run_of_bits};
use crate::page_cache::read_ahead::{Generation, ReadAheadRule, Stretch};
use crate::page_cache::setup::PageCacheSetup;
use crate::page_cache::state::PageCache;

/// Pages in the aligned stretch that a fault maps as far as they are cached: 64 KiB (`fault_around_pages`).
const FAULT_AROUND: u64 = 16;

/// Pages for which one page of the page table has entries: 2 MiB.
const PAGES_PER_TABLE: u64 = 512;

/// Faults that read, less pages mapped by the way, above which the kernel no longer reads around (`MMAP_LOTSAMISS`), and the most
/// that it counts.
const MANY_MISSES: u64 = 100;
const MOST_MISSES: u64 = 10 * MANY_MISSES;

/// Next step of an I/O on a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MappedStep {
    /// Take a page fault, or take it again after a wait. `new_table`: the page table has no page for entries near the faulting page.
    Fault { new_table: bool },
    /// Submit requests for pages, each with its number.
    Submit(Vec<(u64, Pages)>),
    /// Wait for the request with this number.
    Wait(u64),
    /// Enter so many pages into the page table, which ends the fault.
    Map(u64),
    /// Let a write to these pages of the mapping, which makes them dirty, and ends the fault. `entered`: pages new in the page table.
    Dirty { pages: Pages, entered: u64 },
    /// Copy mapped pages.
    Copy(Pages),
}

/// Work of page faults, as shares of a system call's, except for what clears a page. Measured with fio 3.33 beside psync, on files in
/// memory, an AMD EPYC guest with Linux 6.18 (figures in µs): a call of psync takes 0.8, a fault takes 0.8, and 0.18 for each page that
/// it maps. Real kernels of the laboratory (docs/background/fidelity.md) have nearly the same shares.
impl PageCacheSetup {
    /// Work in cycles of an I/O on a mapped file, whatever its size, without faults.
    pub(super) fn mapped_io_work(&self) -> Cycles {
        self.mapped_io
    }

    /// Work in cycles to copy mapped pages; at least 1, so that time passes.
    pub(super) fn mapped_copy_work(&self, pages: u64) -> Cycles {
        (self.mapped_page * pages).max(1)
    }

    /// Work in cycles of a page fault, whatever it maps; at least 1. A new page of the page table is allocated, and cleared (assumed: as
    /// a page is copied).
    pub(super) fn fault_work(&self, new_table: bool) -> Cycles {
        let table = if new_table {
            self.read_page + self.call / 2
        } else {
            0
        };
        (self.call + table).max(1)
    }

    /// Work in cycles of a fault that makes a page writable, beyond the fault's own: locks, and the page's and the mapping's dirt
    /// (assumed: as a call); at least 1.
    pub(super) fn dirtying_work(&self) -> Cycles {
        self.call.max(1)
    }

    /// Work in cycles to enter pages into a page table; at least 1.
    pub(super) fn map_work(&self, pages: u64) -> Cycles {
        (self.call * pages / 4).max(1)
    }
}

impl PageCache {
    /// The next step of an I/O on a mapping with these pages `left`, which `writes` or reads them; copied pages are no longer left.
    pub(super) fn next_step_of_mapped(
        &mut self,
        task: TaskId,
        reading: &mut Reading,
        mut mapping: MappedReads,
        (left, writes): (&mut Pages, bool),
    ) -> MappedStep {
        let step = if writes {
            self.step_of_mapped_write(task, reading, &mut mapping, left)
        } else {
            self.step_of_mapped_read(task, reading, &mut mapping, left)
        };
        reading.mapping = Some(mapping);
        step
    }

    /// As `do_shared_fault()` and `do_wp_page()` (`mm/memory.c`): a write needs its page in the page table, and dirty. Write-back takes
    /// the page's dirt and the right to write to it (`folio_mkclean()`).
    fn step_of_mapped_write(
        &mut self,
        task: TaskId,
        reading: &mut Reading,
        mapping: &mut MappedReads,
        left: &mut Pages,
    ) -> MappedStep {
        let mapped = self.mappings.count_mapped_from_first(task, *left);
        let place = (left.file, left.first);
        let writable = run_of_bits(&self.dirty_words, place, mapped, true);
        if writable > 0 {
            return MappedStep::Copy(left.take_first_pages(writable));
        }
        let page = Pages { count: 1, ..*left };
        if let Some((_, lock)) = self.busy.first_locked(page, task) {
            return MappedStep::Wait(lock);
        }
        if let Some(fault) = self.begin_fault(task, mapping, page) {
            return fault;
        }
        let pages = if reading.rule.maps_whole_folios() {
            // `block_page_mkwrite()` (fs/buffer.c): the folio is dirty as a whole.
            FilePages::new(self, page.file, reading.last_page).folio_with_page(page.first)
        } else {
            page
        };
        let mut entered = 0;
        if mapped == 0 {
            if let Some(step) = self.step_of_faulting_page(reading, mapping, page) {
                return step;
            }
            entered = self.mappings.enter(task, pages);
        }
        mapping.faulting = false;
        MappedStep::Dirty { pages, entered }
    }

    /// Takes a fault on a page if none is in progress. A fault that has waited is taken again: the kernel has let the mapping's lock go
    /// (`VM_FAULT_RETRY`), and the page for the page table with it.
    fn begin_fault(
        &self,
        task: TaskId,
        mapping: &mut MappedReads,
        page: Pages,
    ) -> Option<MappedStep> {
        if mapping.faulting && !mapping.repeats {
            return None;
        }
        if !mapping.faulting {
            (mapping.faulting, mapping.tried) = (true, false);
        }
        mapping.repeats = false;
        let near = Pages {
            first: page.first / PAGES_PER_TABLE * PAGES_PER_TABLE,
            count: PAGES_PER_TABLE,
            ..page
        };
        let new_table = !self.mappings.has_any_mapped(task, near);
        Some(MappedStep::Fault { new_table })
    }

    /// What a fault on a page still has to do before the page can be mapped; `None`: nothing.
    fn step_of_faulting_page(
        &mut self,
        reading: &mut Reading,
        mapping: &mut MappedReads,
        page: Pages,
    ) -> Option<MappedStep> {
        if !mapping.tried {
            mapping.tried = true;
            let stretches = self.read_for_fault(reading, mapping, page);
            return Some(MappedStep::Submit(
                self.begin_arrivals(page.file, stretches),
            ));
        }
        if let Some((_, number)) = self.arrivals.first_arriving(page) {
            mapping.repeats = true;
            return Some(MappedStep::Wait(number));
        }
        // It may have left the memory again.
        (!self.has_all_cached(page)).then(|| {
            let alone = vec![Stretch::for_one_page(page.first)];
            MappedStep::Submit(self.begin_arrivals(page.file, alone))
        })
    }

    fn step_of_mapped_read(
        &mut self,
        task: TaskId,
        reading: &mut Reading,
        mapping: &mut MappedReads,
        left: &mut Pages,
    ) -> MappedStep {
        let mapped = self.mappings.count_mapped_from_first(task, *left);
        if mapped > 0 {
            return MappedStep::Copy(left.take_first_pages(mapped));
        }
        let page = Pages { count: 1, ..*left };
        if let Some(fault) = self.begin_fault(task, mapping, page) {
            return fault;
        }
        let entered = self.map_cached_pages_around(task, reading, page.first, page.file);
        if !(mapping.tried && reading.rule.ignores_pages_just_read()) {
            mapping.count_hits(entered);
        }
        if self.mappings.count_mapped_from_first(task, page) > 0 {
            mapping.faulting = false;
            return MappedStep::Map(entered);
        }
        if let Some(step) = self.step_of_faulting_page(reading, mapping, page) {
            return step;
        }
        // The page has been marked again since: the fault has looked at a mark already.
        mapping.faulting = false;
        MappedStep::Map(self.mappings.enter(task, page))
    }

    /// Maps the cached pages around a page, except those still being read and those of marked folios. Returns how many are new in the
    /// page table.
    fn map_cached_pages_around(
        &mut self,
        task: TaskId,
        reading: &Reading,
        page: u64,
        file: usize,
    ) -> u64 {
        let first = page / FAULT_AROUND * FAULT_AROUND;
        let mut end = (first + FAULT_AROUND).min(reading.last_page + 1);
        let mut at = first;
        if reading.rule.maps_whole_folios() {
            let pages = FilePages::new(self, file, reading.last_page);
            at = pages.first_page_of_folio(first);
            end = pages.page_after_folio(end - 1);
        }
        let mut entered = 0;
        while at < end {
            let one = Pages {
                file,
                first: at,
                count: 1,
            };
            if self.has_all_cached(one)
                && self.arrivals.first_arriving(one).is_none()
                && self.arrivals.first_mark(one).is_none()
            {
                entered += self.mappings.enter(task, one);
            }
            at += 1;
        }
        entered
    }

    /// What the kernel reads for a fault on a page that it could not map at once: a missing or a marked page.
    fn read_for_fault(
        &mut self,
        reading: &mut Reading,
        mapping: &mut MappedReads,
        page: Pages,
    ) -> Vec<Stretch> {
        let (rule, index) = (reading.rule, page.first);
        let looks_ahead = mapping.advice != ReadHint::Random && rule.most > 0;
        if self.has_all_cached(page) {
            if !looks_ahead {
                return Vec::new();
            }
            mapping.count_hits(1);
            let Some(mark) = self.arrivals.first_mark(page) else {
                return Vec::new();
            };
            let pages = FilePages::new(self, page.file, reading.last_page);
            let read = reading.window.read_at_mark(&rule, &pages, mark, rule.most);
            self.arrivals.marks.remove(&(page.file, mark.first));
            return read;
        }
        let mut read = Vec::new();
        if looks_ahead {
            let pages = FilePages::new(self, page.file, reading.last_page);
            let window = &mut reading.window;
            if mapping.advice == ReadHint::Sequential {
                read = window.read_at_missing_page(&rule, &pages, index, rule.most);
            } else {
                mapping.misses = (mapping.misses + 1).min(MOST_MISSES);
                if mapping.misses <= MANY_MISSES {
                    read = window.read_around(&rule, &pages, index);
                }
            }
        }
        if !read.iter().any(|stretch| stretch.has_page(index)) {
            read.push(Stretch::for_one_page(index));
        }
        read
    }
}

impl ReadAheadRule {
    /// Whether a fault maps a large folio as a whole (seen on Linux 6.18).
    fn maps_whole_folios(&self) -> bool {
        self.generation.has_growing_folios()
    }

    /// Whether pages that a fault maps after it has read them do not count against its misses (seen on Linux 7.3).
    fn ignores_pages_just_read(&self) -> bool {
        self.generation == Generation::Linux7_3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = 3;
    const FILE: usize = 0;

    fn cache(memory: u64) -> PageCache {
        PageCache::new(PageCacheSetup {
            pages: memory,
            call: 8,
            page: 3,
            cached_page: 1,
            read_page: 6,
            write_back: 1,
            new_page: 1,
            folio_page: 1,
            mapped_io: 4,
            mapped_page: 3,
            journal: None,
            files: 1,
            remembers: true,
        })
    }

    fn pages(first: u64, count: u64) -> Pages {
        Pages {
            file: FILE,
            first,
            count,
        }
    }

    /// A mapped file of 1000 pages under an advice, with a window of 32 pages.
    fn reading(generation: Generation, advice: ReadHint) -> Reading {
        let rule = ReadAheadRule::new(generation, 32, 320, ReadHint::None);
        Reading {
            mapping: Some(MappedReads::new(advice)),
            ..Reading::new(rule, 999, true)
        }
    }

    fn steps(cache: &mut PageCache, reading: &mut Reading, left: Pages) -> Vec<MappedStep> {
        steps_of_io(cache, reading, left, false)
    }

    /// Steps of a read or write of pages. Each awaited request ends at once.
    fn steps_of_io(
        cache: &mut PageCache,
        reading: &mut Reading,
        mut left: Pages,
        writes: bool,
    ) -> Vec<MappedStep> {
        let mut steps = Vec::new();
        while left.count > 0 {
            let mapping = reading.mapping.unwrap_or(MappedReads::new(ReadHint::None));
            let step = cache.next_step_of_mapped(TASK, reading, mapping, (&mut left, writes));
            match step {
                MappedStep::Wait(number) => cache.arrivals.end_arrival(number),
                MappedStep::Dirty { pages, .. } => {
                    cache.mark_pages_dirty(0, pages);
                }
                _ => {}
            }
            steps.push(step);
            assert!(steps.len() < 1000, "{steps:?}");
        }
        steps
    }

    #[test]
    fn a_fault_reads_around_its_page_and_maps_what_is_there() {
        let (mut cache, mut reading) = (
            cache(1 << 20),
            reading(Generation::Linux6_12, ReadHint::None),
        );
        let taken = steps(&mut cache, &mut reading, pages(100, 1));
        let around = pages(84, 32);
        assert_eq!(
            taken,
            [
                MappedStep::Fault { new_table: true },
                MappedStep::Submit(vec![(1, around)]),
                MappedStep::Wait(1),
                MappedStep::Fault { new_table: true },
                // 96 to 111, without the marked 108.
                MappedStep::Map(15),
                MappedStep::Copy(pages(100, 1)),
            ]
        );
        assert_eq!(
            steps(&mut cache, &mut reading, pages(96, 2)),
            [MappedStep::Copy(pages(96, 2))]
        );
    }

    #[test]
    fn a_marked_page_is_mapped_only_by_its_own_fault() {
        let (mut cache, mut reading) = (
            cache(1 << 20),
            reading(Generation::Linux6_12, ReadHint::None),
        );
        // Around page 16: 0 to 31, with a mark on 24.
        steps(&mut cache, &mut reading, pages(16, 1));
        let taken = steps(&mut cache, &mut reading, pages(17, 8));
        assert_eq!(taken[0], MappedStep::Copy(pages(17, 7)));
        assert_eq!(taken[1], MappedStep::Fault { new_table: false });
        assert!(
            matches!(&taken[2], MappedStep::Submit(requests) if requests[0].1.first == 32),
            "{taken:?}"
        );
        assert_eq!(
            taken[3..],
            [MappedStep::Map(1), MappedStep::Copy(pages(24, 1))]
        );
    }

    #[test]
    fn random_advice_reads_each_page_alone() {
        let (mut cache, mut reading) = (
            cache(1 << 20),
            reading(Generation::Linux6_1, ReadHint::Random),
        );
        let taken = steps(&mut cache, &mut reading, pages(7, 2));
        let requests: Vec<_> = taken
            .iter()
            .filter(|step| matches!(step, MappedStep::Submit(_)))
            .collect();
        assert_eq!(
            requests,
            [
                &MappedStep::Submit(vec![(1, pages(7, 1))]),
                &MappedStep::Submit(vec![(2, pages(8, 1))])
            ]
        );
    }

    #[test]
    fn many_misses_end_the_reading_around() {
        let (mut cache, mut reading) = (
            cache(1 << 20),
            reading(Generation::Linux6_12, ReadHint::None),
        );
        reading.mapping = Some(MappedReads {
            misses: MANY_MISSES,
            ..MappedReads::new(ReadHint::None)
        });
        let taken = steps(&mut cache, &mut reading, pages(500, 1));
        assert_eq!(taken[1], MappedStep::Submit(vec![(1, pages(500, 1))]));
        // A page that a fault maps counts against the misses.
        let misses = reading.mapping.map(|mapping| mapping.misses);
        assert_eq!(misses, Some(MANY_MISSES));
        reading.mapping = Some(MappedReads {
            misses: MANY_MISSES - 1,
            ..MappedReads::new(ReadHint::None)
        });
        let taken = steps(&mut cache, &mut reading, pages(700, 1));
        assert_eq!(taken[1], MappedStep::Submit(vec![(2, pages(684, 32))]));
    }

    #[test]
    fn random_faults_soon_end_the_reading_around_on_the_newest_kernel() {
        let last_request = |generation| {
            let (mut cache, mut reading) = (cache(1 << 20), reading(generation, ReadHint::None));
            reading.last_page = 1 << 20;
            let mut last = 0;
            for place in 0..2 * MANY_MISSES {
                let taken = steps(&mut cache, &mut reading, pages(1000 * place + 500, 1));
                let requests = taken.iter().filter_map(|step| match step {
                    MappedStep::Submit(requests) => Some(requests),
                    _ => None,
                });
                last = requests.flatten().map(|(_, pages)| pages.count).sum();
            }
            last
        };
        assert_eq!(last_request(Generation::Linux6_12), 32);
        assert_eq!(last_request(Generation::Linux7_3), 1);
    }

    #[test]
    fn what_leaves_the_memory_leaves_the_page_table() {
        let (mut cache, mut reading) =
            (cache(64), reading(Generation::Linux6_12, ReadHint::Random));
        let mut last = 0;
        for page in (0..900).step_by(9) {
            last = page;
            steps(&mut cache, &mut reading, pages(page, 1));
            assert!(cache.in_memory <= 64);
        }
        let again = |cache: &mut PageCache, reading: &mut Reading, page| {
            steps(cache, reading, pages(page, 1)).len()
        };
        assert_eq!(again(&mut cache, &mut reading, last), 1);
        assert_eq!(again(&mut cache, &mut reading, 0), 6);
    }

    #[test]
    fn mapped_pages_outlive_an_invalidation_but_not_their_task() {
        let (mut cache, mut reading) = (
            cache(1 << 20),
            reading(Generation::Linux6_18, ReadHint::Random),
        );
        steps(&mut cache, &mut reading, pages(5, 1));
        cache.mappings.map_anew(TASK);
        cache.drop_clean_pages_of_file(FILE);
        // A fault finds the page.
        assert_eq!(
            steps(&mut cache, &mut reading, pages(5, 1)),
            [
                MappedStep::Fault { new_table: true },
                MappedStep::Map(1),
                MappedStep::Copy(pages(5, 1))
            ]
        );
        cache.mappings.end_mappings(TASK);
        cache.drop_clean_pages_of_file(FILE);
        assert!(!cache.has_all_cached(pages(5, 1)));
    }

    #[test]
    fn a_write_reads_its_page_and_faults_again_after_write_back() {
        let (mut cache, mut reading) = (
            cache(1 << 20),
            reading(Generation::Linux6_12, ReadHint::Random),
        );
        let write = |cache: &mut PageCache, reading: &mut Reading| {
            steps_of_io(cache, reading, pages(40, 1), true)
        };
        let dirty = |entered| MappedStep::Dirty {
            pages: pages(40, 1),
            entered,
        };
        let copy = MappedStep::Copy(pages(40, 1));
        assert_eq!(
            write(&mut cache, &mut reading),
            [
                MappedStep::Fault { new_table: true },
                MappedStep::Submit(vec![(1, pages(40, 1))]),
                MappedStep::Wait(1),
                MappedStep::Fault { new_table: true },
                dirty(1),
                copy.clone(),
            ]
        );
        assert_eq!(write(&mut cache, &mut reading), std::slice::from_ref(&copy));
        assert!(cache.take_first_dirty_pages(FILE, 0, 1000).is_some());
        assert_eq!(
            write(&mut cache, &mut reading),
            [MappedStep::Fault { new_table: false }, dirty(0), copy]
        );
    }

    #[test]
    fn a_write_makes_a_large_folio_dirty_as_a_whole() {
        let dirtied = |generation| {
            let (mut cache, mut reading) =
                (cache(1 << 20), reading(generation, ReadHint::Sequential));
            steps(&mut cache, &mut reading, pages(0, 1000));
            steps_of_io(&mut cache, &mut reading, pages(500, 1), true);
            cache.dirty_page_count()
        };
        assert_eq!(dirtied(Generation::Linux6_12), 1);
        assert_eq!(dirtied(Generation::Linux6_18), 32);
    }

    #[test]
    fn a_large_folio_is_mapped_as_a_whole() {
        let faults = |generation| {
            let (mut cache, mut reading) =
                (cache(1 << 20), reading(generation, ReadHint::Sequential));
            let taken = steps(&mut cache, &mut reading, pages(0, 1000));
            let count = |is_wanted: fn(&MappedStep) -> bool| {
                taken.iter().filter(|step| is_wanted(step)).count()
            };
            // Without those taken again after a wait.
            count(|step| matches!(step, MappedStep::Fault { .. }))
                - count(|step| matches!(step, MappedStep::Wait(_)))
        };
        let [old, new] = [Generation::Linux6_12, Generation::Linux6_18].map(faults);
        assert!(
            (63..=96).contains(&old) && (31..=45).contains(&new),
            "{old} {new}"
        );
    }
}
