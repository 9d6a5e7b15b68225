//! Observers watch a run, for example to draw a timeline.
//!
//! The engine is generic over the observer. [`Unobserved`] compiles to nothing, so a run without observer pays
//! nothing. An observer sees everything in time order and cannot change anything.

use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::{Kilohertz, Nanoseconds};

/// What a CPU does from a point in time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The CPU is in, or enters, the idle state with this index.
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
    /// The host of a virtual machine has taken the CPU. Its kernel cannot see that.
    Stolen,
}

/// What a running task works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Submission of a request.
    Submit,
    /// The task's way back to user space after a completion.
    Resume,
    /// Think time.
    Think,
    /// Work that an rt-app file asks for.
    Run,
    /// Background work of the kernel.
    Background,
}

/// What an interrupt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptKind {
    /// A drive has finished the request with this number, or a piece.
    Completion(usize),
    /// The scheduler's tick, or RCU's soft interrupt after it.
    Tick,
    /// A timer other than the tick.
    Timer,
    /// Another CPU has queued a task here, or schedutil wakes a thread.
    Reschedule,
    /// The network has brought requests to a server.
    Network,
}

/// Who has made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A task's read or write, past the page cache.
    Task,
    /// A task's write, past the page cache, that ends once the data are on the media (`REQ_FUA`).
    ForcedWrite,
    /// A flush of the drive.
    Flush,
    /// The page cache, which reads or writes back.
    PageCache,
    /// A task's call done by the page cache alone: no drive sees the request.
    Cached,
}

/// Where a request lies. A simulation settles places only where they matter, as for pages, walks through files and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPlace {
    /// Anywhere in the task's area.
    Unsettled,
    /// At a byte of the task's file or device.
    InOwnFile(u64),
    /// At a byte of a file of the page cache.
    InCachedFile {
        /// Number of the file.
        file: usize,
        /// The request's first byte.
        byte: u64,
    },
}

/// A point on a request's way. Requests have numbers between submission and completion; numbers are used again
/// afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStep {
    /// A task begins to submit a request, at most one at a time.
    Begun {
        /// Number of the task that the request belongs to.
        task: usize,
        /// Number of the task that submits. Requests of the page cache belong to the flusher thread, whoever submits.
        submitter: usize,
    },
    /// The request has been submitted to the drive.
    Issued {
        /// Number of the task that the request belongs to.
        task: usize,
        /// Number of the task that has submitted, as in [`RequestStep::Begun`].
        submitter: usize,
        /// The request's number until it is completed.
        request: usize,
        /// Whether the request is a read; otherwise a write.
        read: bool,
        /// Bytes to transfer; 0 for a flush.
        bytes: u64,
        /// Origin.
        origin: RequestOrigin,
        /// Place on the drive.
        place: RequestPlace,
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
    /// The task is back in user space with the completed request.
    Completed {
        /// The request's number, used again for later requests.
        request: usize,
    },
}

/// A task's wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUpSeen {
    /// The task's number.
    pub task: usize,
    /// The CPU that wakes the task; `None` at the task's start.
    pub cpu: Option<usize>,
    /// The CPU on whose run queue the task comes.
    pub target: usize,
    /// Whether the task was in I/O wait.
    pub iowait: bool,
}

/// Number of events between two calls of [`Observer::simulated_time_reached`]: some hundredths of a second of real time.
pub const EVENTS_BETWEEN_PROGRESS_CALLS: u64 = 1 << 16;

/// Watches a run. Every method does nothing by default.
///
/// Times count from the run's start and never go back. The same run makes the same calls.
pub trait Observer {
    /// Whether the observer wants any call at all; the engine asks at compile time.
    const WATCHES: bool = true;

    /// Called when a CPU begins an activity, or goes on with the same after a clock change.
    fn cpu_activity_changed(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        let _ = (now, cpu, activity);
    }

    /// A CPU served a timer other than the tick, whose interrupt took no time: no change of activity tells of it.
    #[inline(always)]
    fn short_timer_served(&mut self, now: Nanoseconds, cpu: usize) {
        let _ = (now, cpu);
    }

    /// Called when a CPU about to go idle has asked its governor, under a PSD lease or not.
    fn idle_state_chosen(&mut self, cpu: usize, query: &IdleQuery, decision: IdleDecision) {
        let _ = (cpu, query, decision);
    }

    /// Called when a CPU's governor is told how its last choice turned out.
    fn idle_outcome_told(&mut self, cpu: usize, outcome: &IdleOutcome) {
        let _ = (cpu, outcome);
    }

    /// Called when the number of tasks that run or want to run on a CPU may have changed.
    fn runnable_task_count_changed(&mut self, now: Nanoseconds, cpu: usize, tasks: usize) {
        let _ = (now, cpu, tasks);
    }

    /// Called when a CPU wakes a task up.
    fn task_woken(&mut self, now: Nanoseconds, wake_up: WakeUpSeen) {
        let _ = (now, wake_up);
    }

    /// Called when a CPU's task falls asleep, whether it worked since it was woken or not.
    fn task_fell_asleep(&mut self, now: Nanoseconds, cpu: usize, task: usize) {
        let _ = (now, cpu, task);
    }

    /// Called before the run begins, for each kernel thread: its task number, and its name as the kernel's `ps` has it.
    fn kernel_thread_named(&mut self, task: usize, name: &str) {
        let _ = (task, name);
    }

    /// Called when a clock runs at a frequency from now on. Clocks are numbered through the clusters in
    /// order.
    fn clock_frequency_changed(&mut self, now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        let _ = (now, clock, frequency);
    }

    /// Called when a request reaches a step.
    fn request_step_reached(&mut self, now: Nanoseconds, step: RequestStep) {
        let _ = (now, step);
    }

    /// Called when a drive is in a power state from now on.
    fn drive_power_state_changed(&mut self, now: Nanoseconds, drive: usize, state: usize) {
        let _ = (now, drive, state);
    }

    /// The last call: the run is over, or the observer wants no more.
    fn observation_ended(&mut self, now: Nanoseconds) {
        let _ = now;
    }

    /// Whether the observer wants further calls, asked before every event. After a no, the run goes on as if nobody watched.
    fn wants_more_calls(&self) -> bool {
        true
    }

    /// Called each [`EVENTS_BETWEEN_PROGRESS_CALLS`] events with the simulated time so far, warm-up included, also of observers that
    /// want no other call.
    fn simulated_time_reached(&self, now: Nanoseconds) {
        let _ = now;
    }

    /// Whether the observer lets the run stop now, asked before every event.
    fn lets_run_stop(&self) -> bool {
        false
    }
}

/// The observer of a run that nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    const WATCHES: bool = false;
}
