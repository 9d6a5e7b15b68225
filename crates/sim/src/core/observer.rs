//! What somebody who watches a run gets to see, for example to draw a timeline.
//!
//! The engine is generic over its observer. [`Unobserved`] compiles to nothing, so a run that
//! nobody watches pays nothing. An observer sees everything in order of time and cannot change it.

use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::{Kilohertz, Nanoseconds};

/// What a CPU does from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It is in the idle state of this index, or on its way into it.
    Idle(usize),
    /// It is leaving its idle state.
    Waking,
    /// It runs a task.
    Task {
        /// Number of the task, the kernel workers first.
        task: usize,
        /// Index of the job or rt-app task to which it belongs; `None` for a kernel worker.
        job: Option<usize>,
        /// What for.
        work: Work,
    },
    /// It serves an interrupt.
    Interrupt(InterruptKind),
}

/// What a task works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Submission of a request.
    Submit,
    /// The way back to user space after a completion.
    Resume,
    /// Think time.
    Think,
    /// What an rt-app task says.
    Run,
    /// Background work of the kernel.
    Background,
}

/// What an interrupt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptKind {
    /// A drive has finished the request of this number, or a piece of it.
    Completion(usize),
    /// The scheduler's tick, or RCU's soft interrupt after it.
    Tick,
    /// Another timer.
    Timer,
    /// Another CPU has queued a task here, or schedutil wakes its thread.
    Reschedule,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A task's read or write, past the page cache.
    Task,
    /// A flush of the drive.
    Flush,
    /// The page cache, which reads or writes back.
    PageCache,
    /// A task's call that the page cache did alone: no drive has it.
    Cached,
}

/// A point on a request's way. Requests have numbers while they are on their way; a number is used
/// again afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStep {
    /// A task begins to submit a request, at most one at a time.
    Begun {
        /// Number of the task.
        task: usize,
    },
    /// The drive has got it.
    Issued {
        /// Number of the task.
        task: usize,
        /// Number of the request from now on.
        request: usize,
        /// Whether it is a read; a write otherwise.
        read: bool,
        /// Bytes to transfer; 0 for a flush.
        bytes: u64,
        /// Who made it.
        origin: RequestOrigin,
    },
    /// The drive has finished it.
    Served {
        /// Number of the request.
        request: usize,
    },
    /// The completion interrupt has been served.
    Delivered {
        /// Number of the request.
        request: usize,
        /// The CPU that served it.
        cpu: usize,
    },
    /// The task has it.
    Completed {
        /// Number of the request, free from now on.
        request: usize,
    },
}

/// Watches a run. Every method does nothing unless it is implemented.
///
/// Times count from the start of the run and never go back. The same run makes the same calls.
pub trait Observer {
    /// Whether there is anything to tell. The engine asks at compile time.
    const WATCHES: bool = true;

    /// A CPU does something else from now on, or goes on with the same after a cut.
    fn cpu(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        let _ = (now, cpu, activity);
    }

    /// A CPU that goes idle has asked its governor, under a PSD lease or not.
    fn idle_choice(&mut self, cpu: usize, query: &IdleQuery, decision: IdleDecision) {
        let _ = (cpu, query, decision);
    }

    /// The governor of a CPU is told what came of its last choice.
    fn idle_outcome(&mut self, cpu: usize, outcome: &IdleOutcome) {
        let _ = (cpu, outcome);
    }

    /// Tasks on a CPU that run or want to run.
    fn runnable(&mut self, now: Nanoseconds, cpu: usize, tasks: usize) {
        let _ = (now, cpu, tasks);
    }

    /// A clock runs at this frequency from now on. Clocks are numbered through the clusters in
    /// order.
    fn frequency(&mut self, now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        let _ = (now, clock, frequency);
    }

    /// A request has come this far.
    fn request(&mut self, now: Nanoseconds, step: RequestStep) {
        let _ = (now, step);
    }

    /// A drive is in this power state from now on.
    fn drive_power(&mut self, now: Nanoseconds, drive: usize, state: usize) {
        let _ = (now, drive, state);
    }

    /// The run is over, or the observer wants no more. The last call.
    fn finished(&mut self, now: Nanoseconds) {
        let _ = now;
    }

    /// Whether it goes on watching. Asked before every event. After a no, the run goes on as if nobody watched.
    fn wants_more(&self) -> bool {
        true
    }

    /// Whether the run may stop now. Asked before every event.
    fn has_enough(&self) -> bool {
        false
    }
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    const WATCHES: bool = false;
}
