//! What an rt-app file says: tasks, their phases and events.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::error::RtAppWarning;
use super::version::RtAppVersion;

/// Most threads, counting every `instance`.
pub const MAX_THREADS: u32 = 4096;

/// Most events in all tasks together, as written in the file.
pub const MAX_EVENTS: usize = 100_000;

/// An rt-app file, its defaults resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RtAppFile {
    /// When every thread is killed, and not before. `None`: when all have ended by themselves.
    pub duration: Option<Nanoseconds>,
    /// Limit on simulated time, if requested. Never set by a file.
    pub at_most: Option<Nanoseconds>,
    /// Uncounted time at the start: loops and wake-ups that end earlier are ignored. Never set by a file, hence 0
    /// after reading.
    pub warm_up: Nanoseconds,
    /// Tasks in file order; at least one.
    pub tasks: Vec<RtTask>,
    /// Number of parallel copies: see [`RtAppFile::with_copies`]. Never set by a file, hence 1 after reading, and
    /// never printed.
    pub copies: u32,
    /// The rt-app version whose rules apply.
    pub version: RtAppVersion,
    /// Reference for `run` times.
    pub calibration: Calibration,
    /// Accepted keys without the suggested effect.
    pub warnings: Vec<RtAppWarning>,
}

/// Machine state in which `run` times were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Calibration {
    /// The given CPU at its highest frequency.
    Cpu(usize),
    /// A CPU with the given duration of rt-app's loop, in ns. The model uses the biggest core at its highest
    /// frequency.
    LoopNs(u32),
}

impl Default for Calibration {
    fn default() -> Self {
        Self::Cpu(0)
    }
}

/// A task: identical threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RtTask {
    /// Task name.
    pub name: String,
    /// Line of the task's key, counted from 1; for messages only.
    pub line: usize,
    /// Threads, 0 to [`MAX_THREADS`]. Default 1.
    pub instances: u32,
    /// Delay between the workload's start and the threads' start. Default 0.
    pub delay: Nanoseconds,
    /// How often the phases are gone through, at least once. `None`: for ever, the default.
    pub loops: Option<u64>,
    /// Scheduling, unless a phase overrides.
    pub scheduling: Scheduling,
    /// Allowed CPUs, ascending, unless a phase overrides. `None`: all.
    pub cpus: Option<Vec<usize>>,
    /// Phases; at least one.
    pub phases: Vec<Phase>,
}

/// A stretch in a task's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Phase name.
    pub name: String,
    /// How often its events are gone through before the next phase, at least once. `None`: for
    /// ever. Default 1.
    pub loops: Option<u64>,
    /// How the task is scheduled from here on, if that changes.
    pub scheduling: Option<Scheduling>,
    /// Allowed CPUs in this phase, if different from the task's.
    pub cpus: Option<Vec<usize>>,
    /// Events in order; at least one.
    pub events: Vec<RtAppEvent>,
}

/// Scheduling class and priority.
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
        /// 1 to 99, the highest first.
        priority: u8,
    },
    /// `SCHED_RR`.
    RoundRobin {
        /// 1 to 99, the highest first.
        priority: u8,
    },
}

impl Default for Scheduling {
    fn default() -> Self {
        Self::Other { nice: 0 }
    }
}

impl Scheduling {
    /// Name of the class.
    pub(crate) const fn policy(self) -> &'static str {
        match self {
            Self::Other { .. } => "SCHED_OTHER",
            Self::Idle => "SCHED_IDLE",
            Self::Fifo { .. } => "SCHED_FIFO",
            Self::RoundRobin { .. } => "SCHED_RR",
        }
    }

    pub(crate) fn priority(self) -> i64 {
        match self {
            Self::Other { nice } => nice.into(),
            Self::Idle => 0,
            Self::Fifo { priority } | Self::RoundRobin { priority } => priority.into(),
        }
    }
}

/// Something that a thread does. Resources (mutexes, conditions, barriers, timers, and what
/// threads suspend on) are known by their names, each kind for itself.
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
        /// Timer name. With the prefix `unique`, each thread has a timer of its own.
        timer: String,
        /// Period length.
        period: Nanoseconds,
        /// A missed period does not delay later ones.
        absolute: bool,
    },
    /// `lock`: lock the mutex, or wait for it.
    Lock(String),
    /// `unlock`: unlock the mutex.
    Unlock(String),
    /// `wait`: give the mutex back, sleep until the condition is signalled, take the mutex again.
    Wait {
        /// Name of the condition.
        condition: String,
        /// Name of the mutex.
        mutex: String,
    },
    /// `signal`: wake up the first thread that waits for this condition, if any does.
    Signal(String),
    /// `broad`: wake all threads that wait for the condition.
    Broadcast(String),
    /// `sync`: lock, signal, wait and unlock in a single step. A holder of the mutex keeps it.
    Sync {
        /// Name of the condition.
        condition: String,
        /// Name of the mutex.
        mutex: String,
    },
    /// `barrier`: sleep until all threads that use the barrier arrive.
    Barrier(String),
    /// `suspend`: sleep until another thread resumes the name. [`RtAppVersion`] decides whose name.
    Suspend(String),
    /// `resume`: wake up all threads that are suspended on this name, if any is.
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

impl RtAppFile {
    /// The same workload `copies` times side by side, each copy with threads and resources of its
    /// own.
    ///
    /// # Errors
    /// The copies would make no thread at all, or more than [`MAX_THREADS`]; says how many.
    pub fn with_copies(mut self, copies: u32) -> Result<Self, u64> {
        self.copies = copies;
        match self.threads() {
            threads if (1..=u64::from(MAX_THREADS)).contains(&threads) => Ok(self),
            threads => Err(threads),
        }
    }

    /// Threads of all tasks in all copies.
    pub fn threads(&self) -> u64 {
        let of_one: u64 = self.tasks.iter().map(|t| u64::from(t.instances)).sum();
        of_one * u64::from(self.copies)
    }
}

impl RtTask {
    /// All events, in file order.
    pub fn events(&self) -> impl Iterator<Item = &RtAppEvent> {
        self.phases.iter().flat_map(|p| &p.events)
    }
}
