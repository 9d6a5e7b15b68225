//! CPU work for one I/O, by place.

use wakepath_hardware::machine::{Figure, IoPath, PageCache};

use crate::core::basics::Cycles;

/// Bytes per request for which a drive's service times hold.
pub(crate) const BLOCK: u64 = 4096;

/// CPU work for one I/O, by place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoCost {
    submission: Cycles,
    /// Part of the submission that tells a drive of a request.
    doorbell: Cycles,
    /// Submission work for each KiB of a request beyond [`BLOCK`].
    per_kib: Cycles,
    interrupt: Cycles,
    resume: Cycles,
    /// Extra work if the task sleeps until the completion: in the submission, in the interrupt, and in the resumption.
    deactivation: Cycles,
    reactivation: Cycles,
    switch: Cycles,
    /// Page cache work for each [`BLOCK`] of a buffered read.
    page_cache: Cycles,
    /// Work of a call that reads from the page cache, without copying.
    page_cache_call: Cycles,
    /// The program's own work between two I/Os.
    program: Cycles,
    /// Submission work for a flush beyond another request's.
    flush: Cycles,
    /// Extra work of an asynchronous I/O engine: the submitting and the reaping system call.
    asynchronous: [Cycles; 2],
}

impl IoCost {
    pub(crate) fn new(path: &IoPath, page_cache: &PageCache) -> Self {
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
            doorbell: part(&path.doorbell_share).min(submission - deactivation),
            per_kib: path.kcycles_per_kib.kilocycles_to_cycles(),
            interrupt,
            resume,
            deactivation,
            reactivation: part(&path.reactivation_share).min(interrupt),
            switch: part(&path.switch_share).min(resume),
            page_cache: path.page_cache_kcycles.kilocycles_to_cycles(),
            page_cache_call: page_cache.write_kcycles.kilocycles_to_cycles(),
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
    pub(crate) fn completion_costs_more_after_sleep(&self) -> bool {
        self.reactivation | self.switch > 0
    }

    /// Work to submit a request, until the drive has it.
    #[inline]
    pub(crate) fn submission_work(&self, bytes: u64) -> Cycles {
        self.submission + self.per_kib * (bytes.saturating_sub(BLOCK) / 1024)
    }

    /// Part of the submission's work that a drive with other requests saves; 0 on most machines.
    #[inline]
    pub(crate) fn doorbell_work(&self) -> Cycles {
        self.doorbell
    }

    /// Work in the completion interrupt; less if no task has to be woken.
    #[inline]
    pub(crate) fn completion_interrupt_work(&self, wakes_task: bool) -> Cycles {
        self.interrupt - if wakes_task { 0 } else { self.reactivation }
    }

    /// Work for a task to take back completed requests; a context switch is added after a sleep.
    #[inline]
    pub(crate) fn resumption_work(&self, completed_requests: usize, slept: bool) -> Cycles {
        let switch = if slept { self.switch } else { 0 };
        (self.resume - self.switch) * completed_requests as Cycles + switch
    }

    /// Work of a task that another one has woken, until it goes on: a switch, and for a `user_thread` the way back to user space.
    /// Without a sleep (`slept`) there is none.
    #[inline]
    pub(crate) fn wake_up_work(&self, slept: bool, user_thread: bool) -> Cycles {
        match (slept, user_thread) {
            (false, _) => 0,
            (true, false) => self.switch,
            (true, true) => self.resume,
        }
    }

    /// Work to submit a flush, until the drives have it.
    #[inline]
    pub(crate) fn flush_submission_work(&self) -> Cycles {
        self.submission_work(0) + self.flush
    }

    /// Work for a task to leave the run queue before waiting; `None` if the machine counts none.
    #[inline]
    pub(crate) fn work_to_leave_run_queue(&self) -> Option<Cycles> {
        (self.deactivation > 0).then_some(self.deactivation)
    }

    /// Work for a task to go on after a wait for the page cache's request, which may have woken it from a sleep (`slept`); the way
    /// back to user space is the call's `first` wait's.
    #[inline]
    pub(crate) fn work_after_page_cache_wait(&self, first: bool, slept: bool) -> Cycles {
        let reactivation = if slept { self.reactivation } else { 0 };
        reactivation + self.resumption_work(usize::from(first), slept)
    }

    /// Work for an asynchronous engine's submitting system call.
    #[inline]
    pub(crate) fn async_submit_syscall_work(&self) -> Cycles {
        self.asynchronous[0]
    }

    /// Work for an asynchronous engine's reaping system call.
    #[inline]
    pub(crate) fn async_reap_syscall_work(&self) -> Cycles {
        self.asynchronous[1]
    }

    /// The program's own work between two I/Os.
    pub(crate) fn program_work_between_ios(&self) -> Cycles {
        self.program
    }

    /// Page cache work for a buffered read with so many bytes.
    #[inline]
    pub(crate) fn buffered_read_page_work(&self, bytes: u64) -> Cycles {
        self.page_cache * bytes.div_ceil(BLOCK)
    }

    /// Work to look up the pages of a read again, for which the engine has asked before they were there.
    #[inline]
    pub(crate) fn repeated_page_cache_read_work(&self) -> Cycles {
        self.page_cache_call
    }

    /// Whether submission work grows with a request's bytes.
    #[inline]
    pub(crate) fn submission_work_depends_on_bytes(&self) -> bool {
        self.per_kib > 0
    }
}
