//! The contents of a file with tasks.

use serde::Serialize;
use wakepath_units::{Kilohertz, Nanoseconds};

/// Longest time for which tasks are simulated, in seconds.
pub const MAX_SECONDS: f64 = 600.0;

/// Most tasks in a file.
pub const MAX_TASKS: usize = 2048;

/// Most steps of all tasks together.
pub const MAX_STEPS: usize = 1 << 20;

/// Largest number of a task's requests in flight.
pub const MAX_DEPTH: u32 = 65_536;

/// Largest request in bytes.
pub const MAX_IO_BYTES: u64 = 1 << 30;

/// Most cycles of a submission.
pub const MAX_SUBMISSION_CYCLES: u64 = 1 << 40;

/// Highest number of a CPU.
pub(super) const MAX_CPU: usize = 65_535;

/// Tasks that repeat their steps side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TasksFile {
    /// Name of the workload in tables and messages.
    pub name: String,
    /// How long the tasks run: more than 0, at most [`MAX_SECONDS`].
    pub duration: Nanoseconds,
    /// Limit on the duration, set by a caller. Never set by a file.
    pub at_most: Option<Nanoseconds>,
    /// Whether the machine's own background tasks are among the tasks, as in a recording of all tasks. The machine's
    /// figures of such work do not count then.
    pub has_background: bool,
    /// Number of CPUs in the machine that the tasks were recorded on. On a machine with another number, only bound tasks keep their
    /// CPUs, and runs have no CPU but their clock. `None`: tasks keep their CPUs wherever there are such.
    pub machine_cpus: Option<usize>,
    /// The CPU that RCU's grace-period thread begins on, on a machine with as many CPUs. `None`: where the machine begins it.
    pub grace_period_cpu: Option<usize>,
    /// What submitting a request took where the times of `run` are from. The kernel's work inside them is taken to be larger than
    /// that of a simulated machine by as much as this is. `None`, or less: as large.
    pub submission: Option<SubmissionWork>,
    /// The tasks, 1 to [`MAX_TASKS`], with different names.
    pub tasks: Vec<StepTask>,
}

impl TasksFile {
    /// How long the tasks are simulated.
    pub fn simulated_time(&self) -> Nanoseconds {
        self.at_most
            .map_or(self.duration, |limit| limit.min(self.duration))
    }

    /// Whether a machine with so many CPUs has as many as the recorded machine.
    pub fn was_recorded_with(&self, cpus: usize) -> bool {
        self.machine_cpus.is_none_or(|recorded| recorded == cpus)
    }

    /// The CPU that RCU's grace-period thread begins on, on a machine with so many CPUs; `None`: where the machine begins it.
    pub fn grace_period_cpu_on(&self, cpus: usize) -> Option<usize> {
        self.grace_period_cpu
            .filter(|cpu| *cpu < cpus && self.was_recorded_with(cpus))
    }

    /// Whether any task has requests to the drive that count in latencies.
    pub fn has_counted_io(&self) -> bool {
        let counted = self.tasks.iter().filter(|task| task.is_counted);
        counted
            .flat_map(|task| &task.steps)
            .any(|step| matches!(step, WorkStep::Io { .. }))
    }

    /// Whether any task flushes the drive's cache, or writes past it.
    pub fn needs_flush_time(&self) -> bool {
        let steps = self.tasks.iter().flat_map(|task| &task.steps);
        steps.into_iter().any(|step| {
            matches!(
                step,
                WorkStep::Flush
                    | WorkStep::Io {
                        is_forced: true,
                        ..
                    }
            )
        })
    }
}

/// The kernel's work to submit a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SubmissionWork {
    /// Size of the request in bytes, 1 to [`MAX_IO_BYTES`].
    pub bytes: u32,
    /// Cycles of the CPU, 1 to [`MAX_SUBMISSION_CYCLES`].
    pub cycles: u64,
}

/// A task that repeats its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepTask {
    /// The task's name, without blanks.
    pub name: String,
    /// Time from the start until the task runs first.
    pub delay: Nanoseconds,
    /// CPU where the task runs first; `None`: as the scheduler places it.
    pub first_cpu: Option<usize>,
    /// CPUs where the task may run; `None`: all.
    pub cpus: Option<Vec<usize>>,
    /// Whether the task belongs to its CPUs on any machine, as a kernel thread of a CPU does.
    pub is_bound: bool,
    /// Largest number of the task's requests in flight, 1 to [`MAX_DEPTH`]. A further request waits for the end of an earlier one.
    pub depth: u32,
    /// Whether the kernel counts the task's waits for its requests as iowait.
    pub io_wait: bool,
    /// Whether the task's requests are the page cache's, read-ahead or write-back: the end of one takes no time of the task unless
    /// the task sleeps for it.
    pub uses_page_cache: bool,
    /// Whether latencies of the task's requests count in results.
    pub is_counted: bool,
    /// The steps in order.
    pub steps: Vec<WorkStep>,
}

/// Where a request by the network is from, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestSource {
    /// From a client that waits for the task's reply, for this task.
    Client,
    /// From somebody who does not wait, for this task.
    Own,
    /// From somebody who does not wait, for a task of the pool with this number, below [`MAX_TASKS`]: for the one that fell asleep last.
    Pool(u32),
}

/// A step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkStep {
    /// CPU work, given as time on a CPU. The kernel's share for the task's own requests is inside, and the simulator takes that
    /// share out.
    Run {
        /// Time on the CPU.
        time: Nanoseconds,
        /// The CPU whose time this is; `None`: the machine's fastest.
        cpu: Option<u32>,
        /// Clock at which the time was taken; `None`: the CPU's highest.
        clock: Option<Kilohertz>,
        /// Number of completion interrupts of the drive that the time contains.
        interrupts: u32,
    },
    /// Run for this time, whatever the clock.
    Spin(Nanoseconds),
    /// A request to the drive, submitted without waiting for its end.
    Io {
        /// Whether the request writes.
        write: bool,
        /// Size in bytes, a multiple of 512, at most [`MAX_IO_BYTES`].
        bytes: u32,
        /// First byte on the drive.
        offset: u64,
        /// Whether the request is a write that ends once the data are on the media (`REQ_FUA`).
        is_forced: bool,
    },
    /// A flush of the drive's cache, submitted without waiting for its end. Nothing on drives without a volatile cache.
    Flush,
    /// Sleep until at most so many of the task's own requests are in flight.
    AwaitIo(u32),
    /// The same wait where the recorded task found its requests over and did not sleep, so that no run has the work of a sleep.
    PassIo(u32),
    /// Sleep until a timer expires that is started now for this time, its slack included.
    Sleep(Nanoseconds),
    /// Sleep until a timer expires this time after the task's last timer; no sleep if that is over.
    SleepAfterLastTimer(Nanoseconds),
    /// Sleep until a request comes by the network, whose interrupt is on this CPU.
    Arrival {
        /// Time from now on if a client sends once it has the reply, else from the request before among the task's steps. Such requests
        /// come in any case, and wait if no task sleeps for one.
        time: Nanoseconds,
        /// The CPU that the network card interrupts.
        cpu: u32,
        /// Where the request is from, and for whom.
        from: RequestSource,
    },
    /// Append bytes to a log, and wait until they are on the media. The steps up to [`WorkStep::EndSync`] are those of a sync for these
    /// bytes alone. The task that comes first takes them for all that append until it begins, and its first write has their bytes, too.
    /// For the others, the wait is over with this sync, or one of them syncs next.
    JoinSync {
        /// Number of the log, below [`MAX_TASKS`].
        log: u32,
        /// Bytes appended, at most [`MAX_IO_BYTES`].
        bytes: u32,
    },
    /// End of a sync's steps.
    EndSync,
    /// Wake the task with this number, from 0. A task that is not waiting for that passes its next wait at once.
    Wake(u32),
    /// Sleep until another task's wake-up.
    AwaitWakeUp,
    /// Leave an RCU callback on the CPU, which keeps the CPU's tick until a grace period is over (`call_rcu()`). Nothing on
    /// machines without RCU figures.
    LeaveCallback,
}
