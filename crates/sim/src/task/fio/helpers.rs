//! Threads beside a process: what they do, and what waits for them.
//!
//! - `io_submit_mode=offload`: threads of fio 3.33 submit the process's I/Os and wait for one each (`rate-submit.c`,
//!   `workqueue.c`). A thread that has just become idle is taken first.
//! - `force_async=N`: a worker of the kernel submits one I/O in N, and its completion goes to the process
//!   (`io_uring/io-wq.c`, Linux 6.12).
//! - `verify_async=N`: N threads of fio check what the process has read (`verify_async_thread()` in `verify.c`).

use std::collections::VecDeque;

use wakepath_workloads::fio::{Checksum, FioJob};

use crate::block::request::RequestKind;
use crate::core::basics::{Cycles, Direction, TaskId};

/// Cycles to queue an I/O for another thread and to wake the thread. Assumed: two microseconds of a CPU with 2.6 GHz, as a futex
/// takes to wake a thread.
pub(in crate::task) const HAND_OVER_CYCLES: Cycles = 5_200;

/// What the helpers of a process do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::task) enum HelperRole {
    /// Submit an I/O and wait for it.
    Submitter,
    /// Submit an I/O, for which the process waits.
    KernelWorker,
    /// Check data that the process has read.
    Checker,
}

/// Helpers of each process of a job, compiled.
#[derive(Clone, Copy, Debug)]
pub(in crate::task) struct HelperSetup {
    pub(super) role: HelperRole,
    most: usize,
    /// One request in so many is handed to a helper.
    every: u64,
    /// Work on each KiB that a helper checks.
    check_cycles: Cycles,
}

impl HelperSetup {
    /// The helpers that a job's options ask for, if any.
    pub(super) fn new(job: &FioJob) -> Option<Self> {
        let kernel_workers = job.force_async > 0 && job.is_direct() && job.ioengine.is_io_uring();
        let (role, most, every) = if job.submits_by_threads {
            (HelperRole::Submitter, job.iodepth, 1)
        } else if job.checking_threads() > 0 {
            (HelperRole::Checker, job.checking_threads(), 1)
        } else if kernel_workers {
            (HelperRole::KernelWorker, job.iodepth, job.force_async)
        } else {
            return None;
        };
        Some(Self {
            role,
            most: most as usize,
            every: u64::from(every),
            check_cycles: job.verify.checksum.map_or(0, Checksum::cycles_per_kib),
        })
    }

    /// Whether a helper submits the process's request with this number, from 0.
    pub(in crate::task) fn submits(self, request_number: u64) -> bool {
        self.role != HelperRole::Checker && (request_number + 1).is_multiple_of(self.every)
    }

    /// Whether helpers check what the process has read.
    pub(super) fn checks(self) -> bool {
        self.role == HelperRole::Checker
    }

    /// Whether helpers wait for the requests that they submit.
    pub(in crate::task) fn waits(self) -> bool {
        self.role == HelperRole::Submitter
    }

    /// Work of a helper that checks so many bytes, and of handing them over.
    pub(super) fn work_to_check(self, bytes: u64) -> Cycles {
        HAND_OVER_CYCLES + self.check_cycles.saturating_mul(bytes) / 1024
    }
}

/// An I/O handed to a helper.
#[derive(Clone, Copy, Debug)]
pub(in crate::task) struct HandedIo {
    pub(super) direction: Direction,
    pub(super) bytes: u64,
    pub(super) kind: RequestKind,
    /// Byte on the volume, where that matters.
    pub(super) offset: u64,
    /// Time in ns when the process began to submit the I/O.
    pub(super) begun: u64,
}

/// Work handed to a helper.
#[derive(Clone, Copy, Debug)]
pub(in crate::task) enum Handed {
    Io(HandedIo),
    /// So much work to check data.
    Check(Cycles),
}

/// Helpers of a process.
#[derive(Clone, Debug)]
pub(in crate::task) struct Helpers {
    pub(super) setup: HelperSetup,
    /// CPUs on which the helpers may run, as their process.
    pub(super) cpu_set: Option<usize>,
    started: usize,
    idle: Vec<TaskId>,
    waiting: VecDeque<Handed>,
}

/// The helper that takes work next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHelper {
    Idle(TaskId),
    /// One that has to be started first.
    New,
    /// One that is at work.
    Busy,
}

impl Helpers {
    /// Helpers of a process, none of them started.
    pub(super) fn new(setup: HelperSetup, cpu_set: Option<usize>) -> Self {
        Self {
            setup,
            cpu_set,
            started: 0,
            idle: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Queues work. Returns who takes it.
    pub(super) fn queue_work(&mut self, work: Handed) -> NextHelper {
        self.waiting.push_back(work);
        if let Some(helper) = self.idle.pop() {
            return NextHelper::Idle(helper);
        }
        if self.started == self.setup.most {
            return NextHelper::Busy;
        }
        self.started += 1;
        NextHelper::New
    }

    /// Whether work waits for a helper.
    pub(super) fn has_waiting_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the oldest waiting work. `None`: there is none, and the helper is idle from now on.
    pub(super) fn take_work_or_become_idle(&mut self, helper: TaskId) -> Option<Handed> {
        let work = self.waiting.pop_front();
        if work.is_none() {
            self.idle.push(helper);
        }
        work
    }
}

/// State of a helper's task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FioHelper {
    /// The process for which it works, and the index of the process's job.
    pub(super) owner: TaskId,
    pub(in crate::task) job: usize,
    pub(super) role: HelperRole,
    /// I/O in progress.
    pub(super) io: Option<HandedIo>,
}

impl FioHelper {
    /// Whether the helper is a thread of fio's, and not of the kernel's.
    pub(in crate::task) fn is_user_thread(&self) -> bool {
        self.role != HelperRole::KernelWorker
    }

    /// Kind of the request that the helper submits.
    pub(in crate::task) fn request_kind(&self) -> RequestKind {
        self.io.map_or(RequestKind::Plain, |io| io.kind)
    }

    /// Byte on the volume where the helper's request begins.
    pub(in crate::task) fn offset(&self) -> u64 {
        self.io.map_or(0, |io| io.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_that_became_idle_last_works_next() {
        let setup = HelperSetup {
            role: HelperRole::Checker,
            most: 2,
            every: 1,
            check_cycles: 1024,
        };
        let mut helpers = Helpers::new(setup, None);
        let check = Handed::Check(setup.work_to_check(2));
        assert_eq!(setup.work_to_check(2), HAND_OVER_CYCLES + 2);
        for expected in [NextHelper::New, NextHelper::New, NextHelper::Busy] {
            assert_eq!(helpers.queue_work(check), expected);
        }
        for _ in 0..3 {
            assert!(helpers.take_work_or_become_idle(7).is_some());
        }
        for helper in [8, 7] {
            assert!(helpers.take_work_or_become_idle(helper).is_none());
        }
        for expected in [NextHelper::Idle(7), NextHelper::Idle(8), NextHelper::Busy] {
            assert_eq!(helpers.queue_work(check), expected);
        }
    }
}
