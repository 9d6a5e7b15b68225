//! Size and work of a machine's page cache, and its limits for dirty pages.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;

use crate::core::basics::Cycles;
use crate::page_cache::journal::JournalSetup;

/// Shares of memory in percent: the kernel writes back in the background from the first on, and writers cannot exceed
/// the second (`vm.dirty_background_ratio`, `vm.dirty_ratio`).
const BACKGROUND_PERCENT: u64 = 10;
const LIMIT_PERCENT: u64 = 20;

/// Size and work of a machine's page cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageCacheSetup {
    /// Memory for the page cache, in pages.
    pub(super) pages: u64,
    /// Work in cycles of a read's or write's system call, for each page written that is not cached, and for each page that a
    /// read copies.
    pub(super) call: Cycles,
    pub(super) page: Cycles,
    pub(super) read_page: Cycles,
    /// Work in cycles for each page written that is cached: the page is neither allocated nor inserted.
    pub(super) cached_page: Cycles,
    /// Work in cycles for each page written back, beyond that of the request.
    pub(super) write_back: Cycles,
    /// Work in cycles for each page that is read from the drives, beyond its copy and the request.
    pub(super) new_page: Cycles,
    /// The same for pages of a large folio, except the first.
    pub(super) folio_page: Cycles,
    /// Work in cycles of a read or write of a mapped file, and for each page that it copies.
    pub(super) mapped_io: Cycles,
    pub(super) mapped_page: Cycles,
    /// The journal of the file system that files lie on, if it has one.
    pub(super) journal: Option<JournalSetup>,
    /// Number of files, over all jobs and processes.
    pub(super) files: usize,
    /// Whether some job's behaviour depends on which pages are cached.
    pub(super) remembers: bool,
}

impl PageCacheSetup {
    /// Compiles a machine's page cache for `files` files. `remembers`: some job asks what is cached.
    pub(crate) fn new(machine: &Machine, files: usize, remembers: bool) -> Self {
        let figures = &machine.page_cache;
        // The machine's figures for reads hold for writes too, unless writes have figures.
        let page = match &machine.io_path.page_cache_kcycles {
            reading if reading.is_given() && figures.is_default() => reading,
            _ => &figures.page_kcycles,
        };
        let read_page = cycles_or(&figures.read_page_kcycles, page.kilocycles_to_cycles());
        let call = figures.write_kcycles.kilocycles_to_cycles();
        let new_page = machine
            .io_path
            .page_cache_kcycles
            .kilocycles_to_cycles()
            .saturating_sub(read_page);
        let page = page.kilocycles_to_cycles();
        // A page is allocated and inserted alike for a read and for a write (`__filemap_get_folio()`, `mm/filemap.c`).
        let cached_page = page.saturating_sub(new_page);
        Self {
            pages: machine.page_cache_pages(),
            call,
            page,
            cached_page,
            read_page,
            write_back: figures.write_back_kcycles.kilocycles_to_cycles(),
            new_page,
            folio_page: cycles_or(&figures.folio_page_kcycles, new_page),
            // Measured with fio 3.33 beside psync, on files in memory, an AMD EPYC guest with Linux 6.18: an I/O takes 0.4 µs where psync
            // takes 0.8, each page 0.25 µs where it takes 0.5.
            mapped_io: cycles_or(&figures.mapped_io_kcycles, call / 2),
            mapped_page: cycles_or(&figures.mapped_page_kcycles, read_page / 2),
            journal: None,
            files,
            remembers: remembers || cached_page != page,
        }
    }

    /// The same page cache, whose files lie on a file system with this journal.
    pub(crate) fn with_journal(self, journal: Option<JournalSetup>) -> Self {
        Self { journal, ..self }
    }

    /// Whether the drives get requests of a sync together. On XFS (`xfs_vm_writepages()`) only the flusher's come together.
    pub(super) fn plugs_syncs(&self) -> bool {
        !self.journal.is_some_and(|journal| journal.is_on_xfs())
    }

    /// Number of dirty pages above which the kernel writes back in the background.
    pub(super) fn background_write_back_threshold(&self) -> u64 {
        self.pages * BACKGROUND_PERCENT / 100
    }

    /// Highest number of dirty pages, including pages in flight to the drive.
    pub(super) fn dirty_page_limit(&self) -> u64 {
        self.pages * LIMIT_PERCENT / 100
    }

    /// Highest number of dirty pages at which writers are not held back.
    pub(super) fn freerun_threshold(&self) -> u64 {
        self.background_write_back_threshold()
            .midpoint(self.dirty_page_limit())
    }
}

/// A figure in cycles, or what holds where a machine has no such figure.
fn cycles_or(figure: &Figure, otherwise: Cycles) -> Cycles {
    if figure.is_given() {
        figure.kilocycles_to_cycles()
    } else {
        otherwise
    }
}
