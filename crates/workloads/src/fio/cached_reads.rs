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

    /// Whether the job has buffered reads for which it matters which pages are cached: those of `verify` included, and those that page
    /// faults bring about, also for a write. Other buffered reads of jobs beside which nobody writes miss: each block is read once, and nothing is read ahead.
    pub fn reads_depend_on_cached_pages(&self) -> bool {
        if self.is_direct() {
            return false;
        }
        if self.ioengine == IoEngine::Mmap {
            return true;
        }
        if !self.rw.reads() {
            return self.reads_back() && self.reads_back_in_order();
        }
        !self.rw.is_random()
            || self.read_hint() == ReadHint::Sequential
            || !self.invalidate.0
            || ((self.norandommap || self.places.distribution.is_some()) && !self.rw.writes())
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

    /// What fio tells the kernel about its mapping of the job's file (`madvise(2)`; `fio_madvise_file()` in `engines/mmap.c`, fio 3.33:
    /// any hint stands for the order of the job). `None`: the job maps no file.
    pub fn mapping_advice(&self) -> Option<ReadHint> {
        (self.ioengine == IoEngine::Mmap).then(|| match self.fadvise {
            FadviseHint::Off => ReadHint::None,
            _ if self.rw.is_random() => ReadHint::Random,
            _ => ReadHint::Sequential,
        })
    }

    /// Whether a cached read that has to wait for a page leaves its process to submit others: io_uring asks again when the page is
    /// there (`io_read()`, `io_uring/rw.c`, Linux 6.12).
    pub fn cached_reads_wait_beside_process(&self) -> bool {
        self.ioengine == IoEngine::IoUring
            && self.effective_iodepth() > 1
            && self.reads_depend_on_cached_pages()
    }

    /// What the job does with its mapped file beyond the model, and what to do instead; `None` if it does nothing such.
    pub(super) fn mapped_use_without_model(&self) -> Option<&'static str> {
        if self.ioengine != IoEngine::Mmap {
            return None;
        }
        if self.rw.trims() {
            Some("trims: set ioengine=psync")
        } else if self.sync {
            Some("sync, which does not hold for a mapping: set fdatasync=1")
        } else if self.direct {
            Some("direct=1, with which fio syncs the mapping after each I/O: set direct=0")
        } else if self.byte_offset_of_process(1, u64::MAX) > 0 {
            Some("an offset, with which fio 3.33 maps the file anew for each I/O: leave it out")
        } else if self.io_log.is_given() {
            Some("read_iolog: set ioengine=psync and direct=1")
        } else if self.places.distribution.is_some() {
            Some("random_distribution: set ioengine=psync and direct=1")
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
            ("rw=randread\nrandom_distribution=zipf:1.2", true),
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
    fn a_mapping_is_advised_as_the_job_is_ordered() {
        for (lines, advice) in [
            ("rw=read", ReadHint::Sequential),
            ("rw=randread", ReadHint::Random),
            ("rw=randread\nfadvise_hint=sequential", ReadHint::Random),
            ("rw=read\nfadvise_hint=random", ReadHint::Sequential),
            ("rw=randread\nfadvise_hint=0", ReadHint::None),
        ] {
            let mapped = job(&format!("ioengine=mmap\n{lines}")).unwrap();
            assert_eq!(mapped.mapping_advice(), Some(advice), "{lines}");
            assert!(mapped.reads_depend_on_cached_pages(), "{lines}");
            assert_eq!(mapped.effective_iodepth(), 1);
        }
        assert_eq!(job("rw=read").unwrap().mapping_advice(), None);
    }

    #[test]
    fn what_is_not_modelled_of_a_mapping_is_refused_with_the_remedy() {
        for (lines, word) in [
            ("rw=trimwrite", "trims"),
            ("rw=randwrite\nsync=1", "fdatasync=1"),
            ("direct=1", "direct=0"),
            ("offset=4k", "an offset"),
            ("offset_increment=1m", "an offset"),
        ] {
            let error = job(&format!("ioengine=mmap\n{lines}")).unwrap_err();
            assert!(
                error.contains("t.fio:3: job `j`: ioengine=mmap is modelled without")
                    && error.contains(word),
                "{error}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        for lines in ["offset=0", "rw=randwrite\nfsync=4", "rw=rw\nverify=md5"] {
            let modelled = job(&format!("ioengine=mmap\n{lines}"));
            assert!(modelled.is_ok_and(|job| job.reads_depend_on_cached_pages()));
        }
    }

    #[test]
    fn deep_rings_wait_beside_their_process() {
        for (lines, waits) in [
            ("ioengine=io_uring\niodepth=8", true),
            ("ioengine=io_uring\niodepth=8\nrw=randread", false),
            (
                "ioengine=io_uring\niodepth=8\nrw=randread\nnorandommap",
                true,
            ),
            ("ioengine=io_uring\niodepth=8\ndirect=1", false),
            ("ioengine=io_uring", false),
            ("ioengine=libaio\niodepth=8", false),
        ] {
            let job = job(lines).unwrap();
            assert_eq!(job.cached_reads_wait_beside_process(), waits, "{lines}");
        }
    }
}
