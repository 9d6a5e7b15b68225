//! CPU work for one I/O, by place.

use wakepath_hardware::machine::{Figure, IoPath};

use crate::core::basics::Cycles;

/// Bytes per request for which a drive's service times hold.
pub(crate) const BLOCK: u64 = 4096;

/// CPU work for one I/O, by place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoCost {
    submission: Cycles,
    /// Submission work for each KiB beyond [`BLOCK`].
    per_kib: Cycles,
    interrupt: Cycles,
    resume: Cycles,
    /// Work done only for a task that sleeps, in submission, interrupt and resumption.
    deactivation: Cycles,
    reactivation: Cycles,
    switch: Cycles,
    /// Work for each [`BLOCK`] in a buffered read.
    page_cache: Cycles,
    /// Work between two I/Os, done by the program.
    program: Cycles,
    /// Submission work for a flush beyond another request's.
    flush: Cycles,
    /// Work for an asynchronous engine, in submission and resumption.
    asynchronous: [Cycles; 2],
}

impl IoCost {
    pub(crate) fn new(path: &IoPath) -> Self {
        let per_io = path.kcycles_per_io.value * 1e3;
        let part = |share: &Figure| (per_io * share.value).round() as Cycles;
        let (submission, interrupt, resume) = (
            part(&path.submission_share),
            part(&path.interrupt_share),
            part(&path.resume_share),
        );
        let deactivation = part(&path.deactivation_share).min(submission);
        Self {
            submission: submission - deactivation,
            per_kib: path.kcycles_per_kib.kilocycles_to_cycles(),
            interrupt,
            resume,
            deactivation,
            reactivation: part(&path.reactivation_share).min(interrupt),
            switch: part(&path.switch_share).min(resume),
            page_cache: path.page_cache_kcycles.kilocycles_to_cycles(),
            program: path.program_kcycles.kilocycles_to_cycles(),
            flush: path.flush_kcycles.kilocycles_to_cycles(),
            asynchronous: {
                let both = path.asynchronous_kcycles.kilocycles_to_cycles();
                [both / 2, both - both / 2]
            },
        }
    }

    /// Whether a completion costs more if the task sleeps.
    #[inline]
    pub(crate) fn depends_on_sleep(&self) -> bool {
        self.reactivation | self.switch > 0
    }

    /// Work to submit a request, until the drive has it.
    #[inline]
    pub(crate) fn submission(&self, bytes: u64) -> Cycles {
        self.submission + self.per_kib * (bytes.saturating_sub(BLOCK) / 1024)
    }

    /// Work in the completion interrupt, which wakes the task or not.
    #[inline]
    pub(crate) fn interrupt(&self, wakes: bool) -> Cycles {
        self.interrupt - if wakes { 0 } else { self.reactivation }
    }

    /// Work for a task to go on with completed requests, after a sleep or not.
    #[inline]
    pub(crate) fn resume(&self, requests: usize, slept: bool) -> Cycles {
        let switch = if slept { self.switch } else { 0 };
        (self.resume - self.switch) * requests as Cycles + switch
    }

    /// Work to submit a flush, until the drives have it.
    #[inline]
    pub(crate) fn flush_submission(&self) -> Cycles {
        self.submission(0) + self.flush
    }

    /// Work for a task to leave the run queue and wait, if any.
    #[inline]
    pub(crate) fn deactivation(&self) -> Option<Cycles> {
        (self.deactivation > 0).then_some(self.deactivation)
    }

    /// Work for a task to go on after the page cache's request has woken it.
    #[inline]
    pub(crate) fn wake_and_resume(&self) -> Cycles {
        self.reactivation + self.resume(1, true)
    }

    /// Work for an asynchronous engine's submitting system call.
    #[inline]
    pub(crate) fn asynchronous_submission(&self) -> Cycles {
        self.asynchronous[0]
    }

    /// Work for an asynchronous engine's reaping system call.
    #[inline]
    pub(crate) fn asynchronous_completion(&self) -> Cycles {
        self.asynchronous[1]
    }

    /// Work between two I/Os, done by the program.
    pub(crate) fn program(&self) -> Cycles {
        self.program
    }

    /// Work for the pages in a buffered read.
    #[inline]
    pub(crate) fn page_cache(&self, bytes: u64) -> Cycles {
        self.page_cache * bytes.div_ceil(BLOCK)
    }

    /// Whether the bytes matter.
    #[inline]
    pub(crate) fn depends_on_bytes(&self) -> bool {
        self.per_kib > 0
    }
}
