//! How one job uses the page cache.

use wakepath_workloads::fio::{FioJob, ReadHint, Walk};

use crate::page_cache::caller::{Caller, Reading};
use crate::page_cache::mappings::MappedReads;
use crate::page_cache::pages::PAGE;
use crate::page_cache::read_ahead::ReadAheadRule;

/// How one job uses the page cache, where some job writes into it or depends on what is cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheJob {
    /// Number of the first process's file, and whether all processes share it; otherwise each has the next number.
    file: usize,
    shared: bool,
    /// Whether several tasks, of this job or of others, use the first process's file.
    has_sharers: bool,
    /// Byte in the file where the first process begins, and the further offset of each other process.
    offset: u64,
    increment: u64,
    /// Whether a partly written page has to be read first unless cached, because the file has data there.
    reads_parts: bool,
    /// Whether each write ends only with its data on the media.
    syncs: bool,
    /// How the job's files are read ahead, if its reads depend on which pages are cached.
    reads: Option<ReadAheadRule>,
    /// Whether what is cached of a file is dropped before each pass.
    invalidates: bool,
    /// Whether a sequential process opens its files anew where its reads come back to the begin: fio does for each pass, unless the
    /// job is time-based. A walk knows of its passes without that.
    reopens: bool,
    /// Whether reads that have to wait for a page leave their process to go on.
    defers: bool,
    /// What the kernel is told about the processes' mappings of the file; `None`: they read by system calls.
    maps: Option<ReadHint>,
    /// Bytes of the device; `None` for plain files.
    device: Option<u64>,
    /// Bytes of each process's area.
    span: u64,
    /// Whether the files lie on a file system with a journal.
    journals: bool,
}

impl CacheJob {
    pub(crate) fn new(job: &FioJob, capacity: u64) -> Option<Self> {
        (!job.is_direct()).then(|| Self::for_files_of_any_job(job, capacity))
    }

    /// The same also for a job that only syncs its files, since it reads and writes past the page cache.
    pub(crate) fn for_files_of_any_job(job: &FioJob, capacity: u64) -> Self {
        let offset = job.byte_offset_of_process(0, capacity);
        Self {
            file: 0,
            shared: job.shared_files_key().is_some(),
            has_sharers: false,
            offset,
            increment: job.byte_offset_of_process(1, capacity) - offset,
            // A file that fio makes has no data beyond its end, so nothing is read before a partial write.
            reads_parts: job.goes_to_devices() || job.rw.reads(),
            syncs: job.sync,
            reads: None,
            invalidates: job.invalidate.0,
            reopens: !(job.time_based || job.rw.is_random() || job.rw.writes())
                && Walk::for_job_if_positions_matter(job, capacity).is_none(),
            defers: job.cached_reads_wait_beside_process(),
            maps: job.mapping_advice(),
            device: job.goes_to_devices().then_some(capacity),
            span: job.process_limits(capacity).span,
            journals: false,
        }
    }

    /// Sets the number of the first process's file.
    pub(crate) fn set_first_file_number(&mut self, file: usize) {
        self.file = file;
    }

    /// Number of the first process's file.
    pub(crate) fn first_file_number(&self) -> usize {
        self.file
    }

    /// Notes that several tasks use the job's file.
    pub(crate) fn set_has_sharers(&mut self, has_sharers: bool) {
        self.has_sharers = has_sharers;
    }

    /// Notes that the job's files lie on a file system with a journal.
    pub(crate) fn set_journals(&mut self) {
        self.journals = true;
    }

    /// Sets how the job's files are read ahead.
    pub(crate) fn set_read_ahead(&mut self, rule: ReadAheadRule) {
        self.reads = Some(rule);
    }

    /// Whether the job's reads depend on which pages are cached.
    pub(crate) fn looks_at_pages(&self) -> bool {
        self.reads.is_some()
    }

    /// How a process whose area begins at a byte of the file reads the file.
    fn reading_from(&self, base: u64) -> Option<Reading> {
        let bytes = (self.device).unwrap_or_else(|| base.saturating_add(self.span));
        let last_page = bytes.div_ceil(PAGE).saturating_sub(1);
        (self.reads).map(|rule| Reading {
            reopens: self.reopens,
            defers: self.defers,
            mapping: self.maps.map(MappedReads::new),
            ..Reading::new(rule, last_page, self.invalidates)
        })
    }

    /// Whether every process of the job begins at the start of a page.
    pub(crate) fn all_processes_begin_on_pages(&self) -> bool {
        let places = [self.offset, self.increment];
        places.into_iter().all(|bytes| bytes.is_multiple_of(PAGE))
    }

    /// Creates the page cache state of the job's process with this number.
    pub(crate) fn create_caller(&self, process: usize) -> Caller {
        let file = self.file + if self.shared { 0 } else { process };
        let base = self.increment.saturating_mul(process as u64);
        Caller {
            reads_parts: self.reads_parts,
            always_syncs: self.syncs,
            shares_file: self.has_sharers,
            journals: self.journals,
            reading: self.reading_from(self.offset.saturating_add(base)),
            ..Caller::new(file, self.offset.saturating_add(base))
        }
    }
}
