//! The steps of tasks, as a recording shows them.

/// Most tasks that are followed.
pub(super) const MAX_OBSERVED_TASKS: usize = 2048;

/// Most steps of all tasks together; what comes later in the recording is left out.
pub const MAX_OBSERVED_STEPS: usize = 1 << 19;

/// The steps of the tasks in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedTasks {
    /// Tasks by falling number of requests, then by number.
    pub tasks: Vec<ObservedTask>,
    /// Length in ns of the part of the recording that the steps are from.
    pub used_ns: u64,
    /// Length of the whole recording in ns.
    pub recorded_ns: u64,
    /// Whether events were lost, so that only the longest part without a loss was used.
    pub has_losses: bool,
    /// Wake-ups of unknown cause. Their sleeps keep the recorded length.
    pub outside_wake_ups: u64,
    /// Requests whose submitting task is not recorded, or of tasks beyond the most that are followed.
    pub without_task: u64,
    /// Devices with requests. The steps do not tell them apart.
    pub devices: usize,
    /// Number of CPUs in the recorded machine; 0 if unknown.
    pub cpus: u32,
    /// The CPU that RCU's grace-period thread ran on first; `None`: it did not run.
    pub grace_period_cpu: Option<u32>,
    /// What a submission took on the recorded machine; `None`: too few were seen, or no clock.
    pub submission: Option<ObservedSubmission>,
}

/// The kernel's work to submit a request, from the bio to the issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedSubmission {
    /// Size of the request in bytes.
    pub bytes: u32,
    /// Cycles of the CPU, at least 1: a median.
    pub cycles: u64,
}

/// A task's steps, which it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTask {
    /// The kernel's thread number.
    pub number: u32,
    /// The task's name, if recorded.
    pub name: Option<String>,
    /// Time from the start of the part used until the task ran first, in ns.
    pub delay_ns: u64,
    /// CPU where the task ran first.
    pub first_cpu: u32,
    /// CPUs where the task ran, ascending.
    pub cpus: Vec<u32>,
    /// How often the task got a CPU.
    pub turns: u64,
    /// Largest number of requests in flight at a time; 0 without requests.
    pub depth: u32,
    /// Number of requests.
    pub requests: u64,
    /// Whether the task's waits for requests counted as iowait.
    pub io_wait: bool,
    /// Whether the task's requests are read-ahead or write-back of the page cache, beside which the task goes on.
    pub uses_page_cache: bool,
    /// Number of the task's sleeps.
    pub waits: u64,
    /// Sleeps that keep their recorded length, since something outside ended them.
    pub outside_wake_ups: u64,
    /// Whether anybody waited for the task's requests, and not all were write-back or read-ahead.
    pub is_waited_for: bool,
    /// The steps in order.
    pub steps: Vec<ObservedStep>,
}

/// A step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedStep {
    /// The task ran.
    Run(ObservedRun),
    /// The task spun for so many ns, whatever its CPU's clock.
    Spin(u64),
    /// The task submitted a request.
    Io(ObservedIo),
    /// The task submitted a flush of the drive's cache.
    Flush,
    /// The task slept until at most so many of its requests were in flight.
    AwaitIo(u32),
    /// The task waits until at most so many of its requests are in flight; in the recording they were, and the task did not sleep.
    PassIo(u32),
    /// The task slept until a timer that was set for so many ns.
    Sleep(u64),
    /// The task slept until a periodic timer, so many ns after the timer before.
    SleepAfterLastTimer(u64),
    /// The task slept until a device other than the drive, such as a network card, interrupted a CPU.
    Arrival {
        /// Time in ns from the begin of the sleep if clients wait for the task, else from the task's last arrival on.
        after_ns: u64,
        /// The CPU that was interrupted.
        cpu: u32,
        /// Who sends, and for whom.
        from: ArrivalSource,
    },
    /// The task woke the task with this index in [`ObservedTasks::tasks`].
    Wake(usize),
    /// The task slept until another task woke it.
    AwaitWakeUp,
    /// The task appended so many bytes to a log and waited until they were on the media. Steps up to [`ObservedStep::EndSync`] are
    /// those of a sync, which one task does for all that wait.
    JoinSync {
        /// Number of the log.
        log: u32,
        /// Bytes that a further task adds to a sync.
        bytes: u32,
    },
    /// The end of a sync's steps.
    EndSync,
    /// The task left an RCU callback on its CPU (`call_rcu()`).
    LeaveCallback,
}

/// Who interrupts a CPU from outside, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalSource {
    /// Clients that mostly wait for this task: what comes answers its last work.
    Client,
    /// Others, for this task.
    Own,
    /// Others, for any task of the pool with this number: for the one that fell asleep last.
    Pool(u32),
}

/// A task's time on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedRun {
    /// Length in ns.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The CPU's clock in kHz, if recorded.
    pub khz: Option<u32>,
    /// Completion interrupts of the drive on the CPU meanwhile.
    pub interrupts: u32,
}

/// A task's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedIo {
    /// Whether the request writes.
    pub write: bool,
    /// Size in bytes.
    pub bytes: u32,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Whether the write ends only once its data are on the media.
    pub is_forced: bool,
}
