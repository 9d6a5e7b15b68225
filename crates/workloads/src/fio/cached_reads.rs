//! Buffered reads that what is cached decides: read-ahead, and pages that are read again.

use super::{FadviseHint, FioJob, IoEngine};

/// What the kernel takes a file's reads for (`posix_fadvise(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadHint {
    /// Nothing was said.
    None,
    /// Random reads, which nobody reads ahead of.
    Random,
    /// Sequential reads, with a window twice as large.
    Sequential,
}

impl FioJob {
    /// What the kernel takes the job's reads for.
    pub const fn read_hint(&self) -> ReadHint {
        match self.fadvise {
            FadviseHint::Off => ReadHint::None,
            FadviseHint::Random => ReadHint::Random,
            FadviseHint::Pattern if self.rw.is_random() => ReadHint::Random,
            FadviseHint::Sequential | FadviseHint::Pattern => ReadHint::Sequential,
        }
    }

    /// Whether the job has buffered reads for which it matters which pages are cached, those of `verify` included. Other buffered
    /// reads of jobs beside which nobody writes miss: each block is read once, and nothing is read ahead.
    pub fn reads_depend_on_cached_pages(&self) -> bool {
        if self.is_direct() {
            return false;
        }
        if !self.rw.reads() {
            return self.reads_back() && self.reads_back_in_order();
        }
        !self.rw.is_random()
            || self.read_hint() == ReadHint::Sequential
            || !self.invalidate.0
            || (self.norandommap && !self.rw.writes())
    }

    /// Whether the kernel may read ahead of a job that reads back its writes: they are read in the order of their places, or it was
    /// said to be so.
    fn reads_back_in_order(&self) -> bool {
        match self.read_hint() {
            ReadHint::Sequential => true,
            ReadHint::None => !self.has_random_map(),
            ReadHint::Random => false,
        }
    }

    /// The way in which the job's cached reads have no model; `None` if they have one.
    pub(super) fn cached_reads_without_model(&self) -> Option<&'static str> {
        if !self.reads_depend_on_cached_pages() {
            None
        } else if self.ioengine == IoEngine::IoUring && self.effective_iodepth() > 1 {
            Some(
                "several reads of io_uring that wait for the same pages: set iodepth=1, or ioengine=libaio",
            )
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse_modelled_job as job;
    use super::*;

    #[test]
    fn the_hint_is_that_of_the_pattern_unless_it_is_given() {
        for (lines, hint) in [
            ("rw=read", ReadHint::Sequential),
            ("rw=rw", ReadHint::Sequential),
            ("rw=randread", ReadHint::Random),
            ("rw=read\nfadvise_hint=0", ReadHint::None),
            ("rw=read\nfadvise_hint=random", ReadHint::Random),
            ("rw=randread\nfadvise_hint=sequential", ReadHint::Sequential),
        ] {
            assert_eq!(job(lines).unwrap().read_hint(), hint, "{lines}");
        }
    }

    #[test]
    fn random_reads_of_each_block_once_need_no_memory_of_pages() {
        for (lines, depends) in [
            ("rw=randread", false),
            ("rw=randrw\nnorandommap", false),
            ("rw=read\ndirect=1", false),
            ("rw=write", false),
            ("rw=read", true),
            ("rw=randread\nnorandommap", true),
            ("rw=randread\ninvalidate=0", true),
            ("rw=randread\nfadvise_hint=sequential", true),
            ("rw=write\nverify=md5", true),
            ("rw=write\nverify=md5\ndo_verify=0", false),
            ("rw=write\nverify=md5\ndirect=1", false),
            ("rw=randwrite\nverify=md5", false),
            ("rw=randwrite\nverify=md5\nfadvise_hint=sequential", true),
            ("rw=randwrite\nverify=md5\nfadvise_hint=0", false),
            (
                "rw=randwrite\nverify=md5\nfadvise_hint=0\nnorandommap",
                true,
            ),
        ] {
            let job = job(lines).unwrap();
            assert_eq!(job.reads_depend_on_cached_pages(), depends, "{lines}");
        }
    }

    #[test]
    fn deep_rings_are_refused() {
        let error = job("ioengine=io_uring\niodepth=8").unwrap_err();
        assert!(
            error.contains("t.fio:1: job `j`: buffered I/O is modelled without"),
            "{error}"
        );
        assert!(job("ioengine=io_uring").is_ok() && job("ioengine=libaio\niodepth=8").is_ok());
    }
}
