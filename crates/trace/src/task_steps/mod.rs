//! What the tasks in a recording did, step by step: CPU bursts, requests, sleeps, and who woke whom.
//!
//! Each wait is given by its cause, and not by its length: a task's own requests, a timer with the time that it was set for, another
//! task. So the steps answer to other policies. Only a wake-up by a device other than the drive keeps its recorded length.
//!
//! Causes are inferred. A wake-up on an idle CPU comes from the last interrupt there. On a busy CPU it comes from an interrupt within
//! 10 us before, else from the task that runs. The end of a sleep is the time that the governor was told for the next timer,
//! so that the idle state's exit is not part of the sleep. A task whose timers expire more evenly than its sleeps last has a periodic
//! timer. A task after which CPUs never stop their tick leaves RCU callbacks. A write that flushes the drive's cache first becomes a
//! flush, a wait for it, and the write. Tasks of one name that write one at a time, and wake each other after that, share syncs: each
//! commit joins one.

use crate::recording::{DataQuality, Metadata, Reader, RecordingError};

mod arrival_sources;
mod exits;
mod follower;
mod idle_spans;
mod inferred_causes;
mod interruption;
mod item;
mod kept_ticks;
mod loops;
mod observed;
mod requests_in_flight;
mod shared_syncs;
mod spins;
mod submissions;
mod task_requests;
mod task_state;
mod wake_ups;
mod write_pools;

pub use self::observed::{
    ArrivalSource, MAX_OBSERVED_STEPS, ObservedIo, ObservedRun, ObservedStep, ObservedSubmission,
    ObservedTask, ObservedTasks,
};

use self::follower::TaskFollower;
use self::idle_spans::collect_idle_spans;

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
