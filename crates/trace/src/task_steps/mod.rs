//! What the tasks in a recording did, step by step: CPU bursts, requests, sleeps, and who woke whom.
//!
//! Each wait is given by its cause, and not by its length: a task's own requests, a timer with the time that it was set for, another
//! task. So the steps answer to other policies. Only a wake-up by a device other than the drive keeps its recorded length.
//!
//! Causes are inferred. A wake-up on an idle CPU comes from the last interrupt there. On a busy CPU it comes from an interrupt within
//! [`INTERRUPT_NS`] before, else from the task that runs. The end of a sleep is the time that the governor was told for the next timer,
//! so that the idle state's exit is not part of the sleep. A task whose timers expire more evenly than its sleeps last has a periodic
//! timer.

use crate::recording::{DataQuality, Metadata, Reader, RecordingError};

mod follower;
mod idle_spans;
mod loops;

use self::follower::TaskFollower;
use self::idle_spans::collect_idle_spans;

/// Most tasks that are followed.
pub const MAX_OBSERVED_TASKS: usize = 2048;

/// Most steps of all tasks together; what comes later in the recording is left out.
pub const MAX_OBSERVED_STEPS: usize = 1 << 19;

/// Longest time in ns from an interrupt to a wake-up that counts as the interrupt's on a busy CPU.
const INTERRUPT_NS: u64 = 10_000;

/// Names, or their beginnings, of tasks that are left out: the recorder, and threads that belong to mechanisms which a simulator has
/// itself (RCU, schedutil, interrupts, migration).
const LEFT_OUT: [&str; 7] = [
    "wakepath",
    "rcu_",
    "sugov:",
    "irq/",
    "ksoftirqd/",
    "migration/",
    "swapper",
];

/// Why a recording shows no steps.
#[derive(Debug, thiserror::Error)]
pub enum TaskStepsError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Facts of a kind are not in the recording.
    #[error("the recording has no {0}")]
    Missing(&'static str),
    /// No task ran and slept.
    #[error("no task ran in the recording")]
    NoTask,
}

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
    /// Wake-ups by a device other than the drive, or of unknown cause. Their sleeps keep the recorded length.
    pub outside_wake_ups: u64,
    /// Requests without data, such as flushes, which are left out.
    pub without_data: u64,
    /// Requests whose submitting task is not recorded, or of tasks beyond [`MAX_OBSERVED_TASKS`].
    pub without_task: u64,
    /// Devices with requests. The steps do not tell them apart.
    pub devices: usize,
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
    /// Largest number of requests in flight at a time; 0 without requests.
    pub depth: u32,
    /// Number of requests.
    pub requests: u64,
    /// Whether the task's waits for requests counted as iowait.
    pub io_wait: bool,
    /// Whether anybody waited for the task's requests, and not all were write-back or read-ahead.
    pub is_waited_for: bool,
    /// The steps in order.
    pub steps: Vec<ObservedStep>,
}

/// A step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedStep {
    /// The task ran.
    Run {
        /// For so many ns.
        time_ns: u64,
        /// On this CPU.
        cpu: u32,
        /// The CPU's clock in kHz, if recorded.
        khz: Option<u32>,
        /// Completion interrupts of the drive on the CPU meanwhile.
        interrupts: u32,
    },
    /// The task submitted a request.
    Io {
        /// Whether the request writes.
        write: bool,
        /// Size in bytes.
        bytes: u32,
        /// First sector, in units of 512 bytes.
        sector: u64,
    },
    /// The task slept until at most so many of its requests were in flight.
    AwaitIo(u32),
    /// The task slept until a timer that was set for so many ns.
    Sleep(u64),
    /// The task slept until a periodic timer, so many ns after the timer before.
    SleepAfterLastTimer(u64),
    /// The task woke the task with this index in [`ObservedTasks::tasks`].
    Wake(usize),
    /// The task slept until another task woke it.
    AwaitWakeUp,
}

/// Reads a recording to its end, and collects the steps of its tasks.
///
/// # Errors
/// The recording cannot be read, lacks idle periods, the steps of all tasks, or the submitters of requests, or no task ran.
pub fn collect_task_steps(reader: &mut Reader) -> Result<ObservedTasks, TaskStepsError> {
    refuse_missing_facts(reader.metadata())?;
    let extent = reader.time_range_and_rewind()?;
    let Some((first, last)) = extent else {
        return Err(TaskStepsError::NoTask);
    };
    let idle = collect_idle_spans(reader, (first.0, last.0))?;
    let mut follower = TaskFollower::new(reader.metadata(), &idle);
    reader.time_range_and_rewind()?;
    reader.for_each_event(|event| {
        follower.follow_event(&event);
        Ok::<(), RecordingError>(())
    })?;
    let recorded_ns = last.0.saturating_sub(first.0);
    let observed = follower.finish(recorded_ns, &reader.metadata().tasks);
    if observed.tasks.is_empty() {
        return Err(TaskStepsError::NoTask);
    }
    Ok(observed)
}

fn refuse_missing_facts(metadata: &Metadata) -> Result<(), TaskStepsError> {
    let recorded = &metadata.recorded;
    for (quality, what) in [
        (recorded.idle, "idle periods"),
        (recorded.queueing, "block requests with their submitters"),
        (recorded.all_tasks, "steps of all tasks"),
    ] {
        if quality == DataQuality::Missing {
            return Err(TaskStepsError::Missing(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
