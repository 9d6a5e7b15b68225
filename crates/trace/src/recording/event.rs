//! Events in a recording.

use wakepath_units::{Kilohertz, Nanoseconds};

/// An event on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event in ns, on the recording's clock.
    pub time: Nanoseconds,
    /// Where.
    pub cpu: u32,
    /// Kind of event, with details.
    pub kind: EventKind,
}

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An idle period ended, at the event's time.
    Idle(IdlePeriod),
    /// A block request was issued to the drive by this CPU (`block_rq_issue`).
    BlockIssue(Block),
    /// This CPU handled a block request's completion (`block_rq_complete`).
    BlockComplete(Block),
    /// This CPU woke up a task.
    Wake {
        /// The CPU on which the task is to run.
        target: u32,
        /// Whether the task had been waiting for I/O, where the recording says so.
        iowait: Option<bool>,
    },
    /// This CPU's frequency changed (`cpu_frequency`).
    Frequency(Kilohertz),
    /// A timer on this CPU expired.
    Timer(TimerKind),
    /// A bio or request took a step towards its issue.
    Queueing(QueueStep),
    /// This CPU took an interrupt, or woke another CPU.
    Interrupt(Interrupt),
    /// A task waiting for I/O took a step towards running again.
    Task {
        /// The kernel's thread number.
        task: u32,
        /// The step.
        step: TaskStep,
    },
    /// Cycles of this CPU over the time before, during which it ran.
    Clock(ClockCycles),
    /// Events on this CPU before this time are missing. A count of 0 means an unknown number.
    Lost {
        /// How many.
        count: u64,
    },
    /// This CPU went on- or offline.
    Hotplug {
        /// Whether the CPU came online, rather than went offline.
        online: bool,
    },
}

impl EventKind {
    /// The name under which events of this kind are counted.
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Idle(_) => "idle period",
            Self::BlockIssue(_) => "block request issued",
            Self::BlockComplete(_) => "block request completed",
            Self::Wake { .. } => "wake-up",
            Self::Frequency(_) => "frequency change",
            Self::Timer(_) => "timer",
            Self::Queueing(_) => "queueing step",
            Self::Interrupt(_) => "interrupt",
            Self::Task { .. } => "task step",
            Self::Clock(_) => "clock reading",
            Self::Lost { .. } => "lost events",
            Self::Hotplug { .. } => "hotplug",
        }
    }
}

/// A CPU's cycles from the end of its idle period, or the beginning of an interrupt's handler if that is later, to the event's
/// time (perf events).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockCycles {
    /// Time from one end to the other.
    pub elapsed: Nanoseconds,
    /// Cycles at the clock in force.
    pub cycles: u64,
    /// Cycles at a constant clock; none while the CPU is halted.
    pub reference: u64,
}

/// Kinds of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// The scheduler's tick.
    Tick,
    /// Another high-resolution timer.
    HighResolution,
    /// A timer on the timer wheel.
    Wheel,
}

/// A block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The device as the kernel's `dev_t` in trace events has it: major number << 20 | minor.
    pub device: u32,
    /// First sector of the request, in units of 512 bytes.
    pub sector: u64,
    /// Bytes to transfer.
    pub bytes: u32,
    /// Whether the request writes (or discards) rather than reads.
    pub write: bool,
}

/// What a bio asks of the drive's volatile cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// The drive empties its cache first (`REQ_PREFLUSH`). A bio without data is a flush, and nothing else.
    pub flushes_first: bool,
    /// The write ends only once its data are on the media (`REQ_FUA`).
    pub is_forced: bool,
}

/// A bio's or request's step towards the issue (`include/trace/events/block.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// A bio entered the block layer (`block_bio_queue`).
    Queued {
        /// Device, sector and size of the bio.
        block: Block,
        /// Thread number of the task that submitted the bio, where known.
        task: Option<u32>,
        /// Whether no task waits for the bio: readahead, or a write without `REQ_SYNC`, as write-back makes them.
        background: bool,
        /// What the bio asks of the drive's cache; nothing, where the recording does not say.
        durability: Durability,
    },
    /// A bio got a request, and with it a tag (`block_getrq`).
    Tagged(Block),
    /// A request entered the I/O scheduler (`block_rq_insert`); never with scheduler `none`.
    Inserted(Block),
    /// A request was merged into another one (`block_rq_merge`).
    Merged(Block),
    /// A bio was split (`block_split`).
    Split {
        /// The bio.
        block: Block,
        /// First sector of the second half of the split bio.
        at: u64,
    },
    /// A bio went from a partition or stacked device to the device below (`block_bio_remap`).
    Remapped {
        /// Device and sector of the bio on the device below.
        block: Block,
        /// The device above.
        from_device: u32,
        /// Sector of the bio on the device above.
        from_sector: u64,
    },
}

/// An interrupt taken, or a CPU woken by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A device's handler begins (`irq_handler_entry`).
    Device {
        /// The interrupt's number, as in `/proc/interrupts`.
        irq: u32,
    },
    /// The softirq that completes block requests begins (`softirq_entry`, vector `BLOCK`).
    BlockSoftirq,
    /// A function call from another CPU arrives (`call_function_single_entry`, x86).
    CallFunction,
    /// A request to reschedule arrives (`reschedule_entry`, x86).
    Reschedule,
    /// This CPU sends an IPI (`ipi_send_cpu`).
    Sent {
        /// To this CPU.
        target: u32,
    },
    /// This CPU wakes an idle CPU by a store instead of sending an IPI (`sched_wake_idle_without_ipi`).
    Stored {
        /// The idle CPU.
        target: u32,
    },
}

/// A task's step from waiting back to running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStep {
    /// The task's wake-up begins, on the waking CPU (`sched_waking`).
    Waking,
    /// The task is on a run queue (`sched_wakeup`); perhaps seen by the woken CPU.
    Woken {
        /// The CPU of the task's run queue.
        target: u32,
    },
    /// The task begins to run on this CPU (`sched_switch`).
    Running,
}

/// An idle period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdlePeriod {
    /// Index of the idle state, 0 the shallowest.
    pub state: u8,
    /// Length of the idle period from entry to exit, the exit latency included. 0: the driver refused the state.
    pub duration: Nanoseconds,
    /// The governor's inputs when choosing the state.
    pub inputs: IdleInputs,
    /// The CPU's activity since the last idle period.
    pub before: Before,
    /// Whether the governor asked for the tick to be stopped.
    pub stop_tick: Option<bool>,
    /// Whether the tick woke the CPU.
    pub got_tick: Option<bool>,
    /// Whether polling ended at its time limit.
    pub poll_limit_hit: Option<bool>,
}

/// A CPU's activity before asking the governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Before {
    /// Not recorded.
    #[default]
    Unknown,
    /// At most interrupts ran: the CPU has not left the kernel's idle loop since the last idle period.
    IdleLoop,
    /// The CPU ran a task since the last idle period.
    Task,
}

/// Inputs of an idle governor. Each is `None` if not recorded, or if the governor did not ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleInputs {
    /// Time to the next timer if the tick were stopped, in ns (`tick_nohz_get_sleep_length()`).
    pub sleep_length: Option<i64>,
    /// Whether [`IdleInputs::sleep_length`] was not seen but worked out from other events.
    pub inferred: bool,
    /// Time to the next timer or tick, in ns.
    pub delta_tick: Option<i64>,
    /// Whether the tick was stopped already when the governor was asked.
    pub tick_stopped: Option<bool>,
    /// Longest tolerated exit latency, in ns.
    pub latency_request: Option<i64>,
    /// Number of tasks waiting for I/O whose last CPU is this one.
    pub iowaiters: Option<u32>,
    /// How long before the idle entry the governor was asked, in ns.
    pub select_lead: Option<u32>,
}
