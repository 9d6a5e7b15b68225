//! The contents of an rt-app file: tasks, their phases and events.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::error::RtAppWarning;
use super::version::RtAppVersion;

/// Most threads accepted, counting every `instance`.
pub const MAX_THREADS: u32 = 4096;

/// Most events accepted in all tasks together, as written in the file.
pub const MAX_EVENTS: usize = 100_000;

/// Number of threads that is refused: none, or more than [`MAX_THREADS`].
pub type RefusedThreadCount = u64;

/// An rt-app file with its defaults resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RtAppFile {
    /// Time at which every thread is killed. `None`: the workload ends when all threads have ended by themselves.
    pub duration: Option<Nanoseconds>,
    /// Limit on simulated time, set by a caller. Never set by a file.
    pub at_most: Option<Nanoseconds>,
    /// Uncounted time at the start: loops and wake-ups that end earlier are ignored. Never set by a file, hence 0 after
    /// reading.
    pub warm_up: Nanoseconds,
    /// Tasks in file order; at least one.
    pub tasks: Vec<RtTask>,
    /// Number of parallel copies of the whole workload: see [`RtAppFile::with_copies`]. Never set by a file, hence 1
    /// after reading, and never printed.
    pub copies: u32,
    /// The rt-app version whose rules the file follows.
    pub version: RtAppVersion,
    /// Speed of the CPU that `run` times refer to.
    pub calibration: Calibration,
    /// Warnings about accepted keys that have another effect than a user may expect.
    pub warnings: Vec<RtAppWarning>,
}

/// Speed of the CPU on which `run` times were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Calibration {
    /// `run` times refer to the CPU with this number at its highest frequency.
    Cpu(usize),
    /// `run` times refer to a CPU on which rt-app's loop takes so many ns. The model uses the biggest core at its
    /// highest frequency.
    LoopNs(u32),
}

impl Default for Calibration {
    fn default() -> Self {
        Self::Cpu(0)
    }
}

/// A task in an rt-app file: one or more identical threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RtTask {
    /// Task name.
    pub name: String,
    /// Line of the task's key, counted from 1; used only for messages.
    pub line: usize,
    /// Number of threads, 0 to [`MAX_THREADS`]. Default 1.
    pub instances: u32,
    /// Delay between the workload's start and the threads' start. Default 0.
    pub delay: Nanoseconds,
    /// How often the phases are repeated, at least once. `None`: for ever, the default.
    pub loops: Option<u64>,
    /// Scheduling class and priority, unless a phase overrides them.
    pub scheduling: Scheduling,
    /// CPUs that the threads may run on, ascending, unless a phase overrides them. `None`: all.
    pub cpus: Option<Vec<usize>>,
    /// Phases of each loop in order; at least one.
    pub phases: Vec<Phase>,
}

/// A phase in a task's life: a list of events, repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Phase name.
    pub name: String,
    /// How often the phase's events are repeated before the next phase, at least once. `None`: for ever. Default 1.
    pub loops: Option<u64>,
    /// Scheduling class and priority from this phase on, if they change.
    pub scheduling: Option<Scheduling>,
    /// CPUs that the threads may run on in this phase, if different from the task's.
    pub cpus: Option<Vec<usize>>,
    /// Events of the phase in order; at least one.
    pub events: Vec<RtAppEvent>,
}

/// Scheduling class and priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    /// `SCHED_OTHER`, with a nice value of -20 to 19.
    Other {
        /// The nice value.
        nice: i8,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo {
        /// Priority in `SCHED_FIFO`, 1 to 99, the highest first.
        priority: u8,
    },
    /// `SCHED_RR`.
    RoundRobin {
        /// Priority in `SCHED_RR`, 1 to 99, the highest first.
        priority: u8,
    },
}

impl Default for Scheduling {
    fn default() -> Self {
        Self::Other { nice: 0 }
    }
}

impl Scheduling {
    /// Name of the scheduling class, as in rt-app.
    pub(crate) const fn policy_name(self) -> &'static str {
        match self {
            Self::Other { .. } => "SCHED_OTHER",
            Self::Idle => "SCHED_IDLE",
            Self::Fifo { .. } => "SCHED_FIFO",
            Self::RoundRobin { .. } => "SCHED_RR",
        }
    }

    pub(crate) fn priority_or_nice(self) -> i64 {
        match self {
            Self::Other { nice } => nice.into(),
            Self::Idle => 0,
            Self::Fifo { priority } | Self::RoundRobin { priority } => priority.into(),
        }
    }
}

/// An event: something that a thread does. Resources (mutexes, conditions, barriers, timers) are known by their names, each kind
/// for itself. A thread suspends on the condition with the given name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RtAppEvent {
    /// `run`: work that takes the given time on [`RtAppFile::calibration`]'s CPU at its highest frequency.
    Run(Nanoseconds),
    /// `runtime`: work for this long, whatever gets done.
    Runtime(Nanoseconds),
    /// `sleep`: sleep for the given time.
    Sleep(Nanoseconds),
    /// `timer`: sleep until the timer's next period.
    Timer {
        /// Name of the timer. With the prefix `unique`, each thread has a timer of its own.
        timer: String,
        /// Period length.
        period: Nanoseconds,
        /// Whether the timer is relative: a missed period does not delay later ones.
        absolute: bool,
    },
    /// `lock`: lock the mutex, or wait for it.
    Lock(String),
    /// `unlock`: unlock the mutex.
    Unlock(String),
    /// `wait`: give the mutex back, sleep until the condition is signalled, take the mutex again.
    Wait {
        /// Name of the condition to wait for.
        condition: String,
        /// Name of the mutex that is given back meanwhile.
        mutex: String,
    },
    /// `signal`: wake up the first thread that waits for this condition, if any does.
    Signal(String),
    /// `broad`: wake all threads that wait for the condition.
    Broadcast(String),
    /// `sync`: lock, signal, wait and unlock in a single step. A holder of the mutex keeps it.
    Sync {
        /// Name of the condition to signal and wait for.
        condition: String,
        /// Name of the mutex that is held before and after.
        mutex: String,
    },
    /// `barrier`: sleep until all threads that use the barrier arrive.
    Barrier(String),
    /// `suspend`: sleep until another thread resumes or signals the condition. [`RtAppVersion`] decides whose name the condition has.
    Suspend(String),
    /// `resume`: wake up all threads that wait for this condition, as `broad`.
    Resume(String),
    /// `sem_post`: increment the semaphore, or wake the first waiting thread.
    SemPost(String),
    /// `sem_wait`: decrement the semaphore; at 0, sleep until an increment.
    SemWait(String),
    /// `yield`: let another thread have the CPU.
    Yield,
    /// `mem`: write this many bytes to memory.
    Mem(u64),
    /// `iorun`: write this many bytes to `io_device`. In rt-app that goes to the page cache; in the
    /// simulator it is a write for which the thread waits as for I/O.
    IoRun(u64),
}

impl RtAppEvent {
    /// The condition that a thread waits for, if for any.
    pub(super) fn awaited_condition(&self) -> Option<&str> {
        match self {
            Self::Suspend(condition)
            | Self::Wait { condition, .. }
            | Self::Sync { condition, .. } => Some(condition),
            _ => None,
        }
    }
}

impl RtAppFile {
    /// The same workload `copies` times side by side, each copy with threads and resources of its own.
    ///
    /// # Errors
    /// The copies would make no thread at all, or more than [`MAX_THREADS`]; the error is the number of threads.
    pub fn with_copies(mut self, copies: u32) -> Result<Self, RefusedThreadCount> {
        self.copies = copies;
        match self.thread_count() {
            threads if (1..=u64::from(MAX_THREADS)).contains(&threads) => Ok(self),
            threads => Err(threads),
        }
    }

    /// Number of threads in all tasks and all copies.
    pub fn thread_count(&self) -> u64 {
        let of_one: u64 = self.tasks.iter().map(|t| u64::from(t.instances)).sum();
        of_one * u64::from(self.copies)
    }
}

impl RtTask {
    /// All events of the task's phases, in file order.
    pub fn events(&self) -> impl Iterator<Item = &RtAppEvent> {
        self.phases.iter().flat_map(|p| &p.events)
    }
}
