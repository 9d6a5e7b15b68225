//! Observers watch a run, for example to draw a timeline.
//!
//! The engine is generic over the observer. [`Unobserved`] compiles to nothing, so a run without observer pays
//! nothing. An observer sees everything in time order and cannot change anything.

use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::{Kilohertz, Nanoseconds};

/// A CPU's activity from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The CPU is in the idle state with this index, or entering.
    Idle(usize),
    /// The CPU is leaving an idle state.
    Waking,
    /// The CPU runs a task.
    Task {
        /// Number of the task, the kernel workers first.
        task: usize,
        /// Index of the task's job or rt-app task; `None` for a kernel worker.
        job: Option<usize>,
        /// Purpose.
        work: Work,
    },
    /// The CPU serves an interrupt.
    Interrupt(InterruptKind),
}

/// A task's present work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Submission of a request.
    Submit,
    /// The way back to user space after a completion.
    Resume,
    /// Think time.
    Think,
    /// Work from an rt-app file.
    Run,
    /// Background work of the kernel.
    Background,
}

/// Purposes for an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptKind {
    /// A drive has finished this request, or a piece.
    Completion(usize),
    /// The scheduler's tick, or RCU's soft interrupt after it.
    Tick,
    /// Another timer.
    Timer,
    /// Another CPU has queued a task here, or schedutil wakes a thread.
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
    /// A task's call done by the page cache alone: no drive sees the request.
    Cached,
}

/// A point on a request's way. Requests have numbers between submission and completion; numbers are used again
/// afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStep {
    /// A task begins to submit a request, at most one at a time.
    Begun {
        /// Task number.
        task: usize,
    },
    /// The drive has got it.
    Issued {
        /// Task number.
        task: usize,
        /// Request number from now on.
        request: usize,
        /// A read; otherwise a write.
        read: bool,
        /// Bytes to transfer; 0 for a flush.
        bytes: u64,
        /// Origin.
        origin: RequestOrigin,
    },
    /// The drive has finished the request.
    Served {
        /// Request number.
        request: usize,
    },
    /// The completion interrupt has been served.
    Delivered {
        /// Request number.
        request: usize,
        /// The interrupted CPU.
        cpu: usize,
    },
    /// The task has the request back.
    Completed {
        /// Request number, free from now on.
        request: usize,
    },
}

/// Watches a run. Every method does nothing by default.
///
/// Times count from the run's start and never go back. The same run makes the same calls.
pub trait Observer {
    /// Whether the observer wants any call. The engine asks at compile time.
    const WATCHES: bool = true;

    /// A CPU does something else from now on, or goes on with the same after a cut.
    fn cpu(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        let _ = (now, cpu, activity);
    }

    /// A CPU about to go idle has asked the governor, under a PSD lease or not.
    fn idle_choice(&mut self, cpu: usize, query: &IdleQuery, decision: IdleDecision) {
        let _ = (cpu, query, decision);
    }

    /// A CPU's governor hears how the last choice turned out.
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
