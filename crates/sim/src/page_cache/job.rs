//! One job's use of the page cache.

use wakepath_workloads::fio::FioJob;

use crate::page_cache::state::{Caller, PAGE};

/// A job's use of a page cache with writers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheJob {
    /// The first process's file, and whether all others share the file; otherwise the others have the next files.
    file: usize,
    shared: bool,
    /// Where the first process begins in the file, and the further offset for each other process.
    offset: u64,
    increment: u64,
    /// A partly written page is read first, unless cached: the page exists.
    reads_parts: bool,
    /// Each write ends with the data on the media.
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
            // A file made by fio has nothing beyond the end.
            reads_parts: job.goes_to_devices() || job.rw.reads(),
            syncs: job.sync,
        })
    }

    /// Gives the first process's file a number.
    pub(crate) fn number_file(&mut self, file: usize) {
        self.file = file;
    }

    /// Whether all processes begin at the start of a page.
    pub(crate) fn begins_on_pages(&self) -> bool {
        let places = [self.offset, self.increment];
        places.into_iter().all(|bytes| bytes.is_multiple_of(PAGE))
    }

    /// A process's part in the page cache.
    pub(crate) fn caller(&self, process: usize) -> Caller {
        let file = self.file + if self.shared { 0 } else { process };
        let base = self.increment.saturating_mul(process as u64);
        Caller {
            reads_parts: self.reads_parts,
            always_syncs: self.syncs,
            ..Caller::new(file, self.offset.saturating_add(base))
        }
    }
}
