//! What one job is to the page cache.

use wakepath_workloads::fio::FioJob;

use crate::page_cache::state::{Caller, PAGE};

/// What a job does with a page cache into which jobs write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheJob {
    /// The file of the first process, and whether all others have that, too; else they have the next ones.
    file: usize,
    shared: bool,
    /// Where the first process begins in its file, and how much further each other one.
    offset: u64,
    increment: u64,
    /// A page of which a part is written is read first, unless it is cached: it is there.
    reads_parts: bool,
    /// Each write ends when its data are on the media.
    syncs: bool,
}

impl CacheJob {
    pub(crate) fn new(job: &FioJob, capacity: u64) -> Option<Self> {
        let offset = job.offset_of(0, capacity);
        (!job.is_direct()).then(|| Self {
            file: 0,
            shared: job.shared_files().is_some(),
            offset,
            increment: job.offset_of(1, capacity) - offset,
            // A file that fio makes has nothing beyond its end.
            reads_parts: job.is_on_device() || job.rw.reads(),
            syncs: job.sync,
        })
    }

    /// Gives the file of the first process its number.
    pub(crate) fn number_file(&mut self, file: usize) {
        self.file = file;
    }

    /// Whether all processes begin at the start of a page.
    pub(crate) fn begins_on_pages(&self) -> bool {
        let places = [self.offset, self.increment];
        places.into_iter().all(|bytes| bytes.is_multiple_of(PAGE))
    }

    /// What a process has to do with the page cache.
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
