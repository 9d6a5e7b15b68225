//! CPU work that one I/O costs, by where it is done.

use wakepath_hardware::machine::{Figure, IoPath};

use crate::core::basics::Cycles;

/// Bytes of the requests that a drive's service times are about.
pub(crate) const BLOCK: u64 = 4096;

/// CPU work that one I/O costs, by where it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoCost {
    submission: Cycles,
    /// Of the submission, for each KiB beyond [`BLOCK`].
    per_kib: Cycles,
    interrupt: Cycles,
    resume: Cycles,
    /// Of the submission, the interrupt and the resumption: what is done only for a task that sleeps.
    deactivation: Cycles,
    reactivation: Cycles,
    switch: Cycles,
    /// Of a buffered read, for each [`BLOCK`] of it.
    page_cache: Cycles,
    /// Of the program between two I/Os.
    program: Cycles,
    /// What a flush costs more than another request until the drive has it.
    flush: Cycles,
    /// Of an asynchronous engine, in the submission and in the resumption.
    asynchronous: [Cycles; 2],
}

impl IoCost {
    pub(crate) fn new(of: &IoPath) -> Self {
        let per_io = of.kcycles_per_io.value * 1e3;
        let part = |share: &Figure| (per_io * share.value).round() as Cycles;
        let (submission, interrupt, resume) = (
            part(&of.submission_share),
            part(&of.interrupt_share),
            part(&of.resume_share),
        );
        let deactivation = part(&of.deactivation_share).min(submission);
        Self {
            submission: submission - deactivation,
            per_kib: of.kcycles_per_kib.kilocycles(),
            interrupt,
            resume,
            deactivation,
            reactivation: part(&of.reactivation_share).min(interrupt),
            switch: part(&of.switch_share).min(resume),
            page_cache: of.page_cache_kcycles.kilocycles(),
            program: of.program_kcycles.kilocycles(),
            flush: of.flush_kcycles.kilocycles(),
            asynchronous: {
                let both = of.asynchronous_kcycles.kilocycles();
                [both / 2, both - both / 2]
            },
        }
    }

    /// Whether it matters to a completion that the task sleeps.
    #[inline]
    pub(crate) fn depends_on_sleep(&self) -> bool {
        self.reactivation | self.switch > 0
    }

    /// Of submitting a request of so many bytes, until the drive has it.
    #[inline]
    pub(crate) fn submission(&self, bytes: u64) -> Cycles {
        self.submission + self.per_kib * (bytes.saturating_sub(BLOCK) / 1024)
    }

    /// Of the completion interrupt of a request, which wakes its task or not.
    #[inline]
    pub(crate) fn interrupt(&self, wakes: bool) -> Cycles {
        self.interrupt - if wakes { 0 } else { self.reactivation }
    }

    /// Of a task that goes on with so many completed requests, after it slept or not.
    #[inline]
    pub(crate) fn resume(&self, requests: usize, slept: bool) -> Cycles {
        let switch = if slept { self.switch } else { 0 };
        (self.resume - self.switch) * requests as Cycles + switch
    }

    /// Of submitting a flush, until the drives have it.
    #[inline]
    pub(crate) fn flush_submission(&self) -> Cycles {
        self.submission(0) + self.flush
    }

    /// Of a task that takes itself off the run queue to wait for its requests, if that costs anything.
    #[inline]
    pub(crate) fn deactivation(&self) -> Option<Cycles> {
        (self.deactivation > 0).then_some(self.deactivation)
    }

    /// Of a task that is woken by a request of the page cache, and goes on.
    #[inline]
    pub(crate) fn wake_and_resume(&self) -> Cycles {
        self.reactivation + self.resume(1, true)
    }

    /// Of an asynchronous engine's system call that submits.
    #[inline]
    pub(crate) fn asynchronous_submission(&self) -> Cycles {
        self.asynchronous[0]
    }

    /// Of an asynchronous engine's system call that takes completions.
    #[inline]
    pub(crate) fn asynchronous_completion(&self) -> Cycles {
        self.asynchronous[1]
    }

    /// Of the program between two I/Os.
    pub(crate) fn program(&self) -> Cycles {
        self.program
    }

    /// Of the pages of a buffered read of so many bytes.
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
