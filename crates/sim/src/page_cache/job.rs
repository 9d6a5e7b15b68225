//! How one job uses the page cache.

use wakepath_workloads::fio::FioJob;

use crate::page_cache::state::{Caller, PAGE};

/// How one job uses the page cache, where some job writes into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheJob {
    /// Number of the first process's file, and whether all processes share it; otherwise each has the next number.
    file: usize,
    shared: bool,
    /// Byte in the file where the first process begins, and the further offset of each other process.
    offset: u64,
    increment: u64,
    /// Whether a partly written page has to be read first unless cached, because the file has data there.
    reads_parts: bool,
    /// Whether each write ends only with its data on the media.
    syncs: bool,
}

impl CacheJob {
    pub(crate) fn new(job: &FioJob, capacity: u64) -> Option<Self> {
        let offset = job.start_of_process(0, capacity);
        (!job.is_direct()).then(|| Self {
            file: 0,
            shared: job.shared_files_key().is_some(),
            offset,
            increment: job.start_of_process(1, capacity) - offset,
            // A file that fio makes has no data beyond its end, so nothing is read before a partial write.
            reads_parts: job.goes_to_devices() || job.rw.reads(),
            syncs: job.sync,
        })
    }

    /// Sets the number of the first process's file.
    pub(crate) fn set_first_file_number(&mut self, file: usize) {
        self.file = file;
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
            ..Caller::new(file, self.offset.saturating_add(base))
        }
    }
}
