//! The events of a recording.

use wakepath_units::{Kilohertz, Nanoseconds};

/// Something that happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the recording's clock.
    pub time: Nanoseconds,
    /// Where.
    pub cpu: u32,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An idle period ended; the event's time is that of the exit.
    Idle(IdlePeriod),
    /// A block request was issued to the drive by this CPU (`block_rq_issue`).
    BlockIssue(Block),
    /// This CPU handled the completion of a block request (`block_rq_complete`).
    BlockComplete(Block),
    /// This CPU woke a task up.
    Wake {
        /// The CPU on which the task is to run.
        target: u32,
        /// Whether the task had been waiting for I/O, where the recording says so.
        iowait: Option<bool>,
    },
    /// This CPU's frequency changed (`cpu_frequency`).
    Frequency(Kilohertz),
    /// A timer of this CPU expired.
    Timer(TimerKind),
    /// The recording lacks this many events of this CPU from before this time; 0 is an unknown
    /// number of them.
    Lost {
        /// How many.
        count: u64,
    },
    /// This CPU went on- or offline.
    Hotplug {
        /// It came online.
        online: bool,
    },
}

impl EventKind {
    /// What counts of events call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Idle(_) => "idle period",
            Self::BlockIssue(_) => "block request issued",
            Self::BlockComplete(_) => "block request completed",
            Self::Wake { .. } => "wake-up",
            Self::Frequency(_) => "frequency change",
            Self::Timer(_) => "timer",
            Self::Lost { .. } => "lost events",
            Self::Hotplug { .. } => "hotplug",
        }
    }
}

/// Which kind of timer expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// The scheduler's tick.
    Tick,
    /// Another high-resolution timer.
    HighResolution,
    /// A timer of the timer wheel.
    Wheel,
}

/// A block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The device as the kernel's `dev_t` in trace events has it: major number << 20 | minor.
    pub device: u32,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Bytes to transfer.
    pub bytes: u32,
    /// It writes (or discards); otherwise it reads.
    pub write: bool,
}

/// An idle period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdlePeriod {
    /// Index of the state, shallowest first.
    pub state: u8,
    /// From entry to exit, the exit latency included. 0: the driver refused the state.
    pub duration: Nanoseconds,
    /// What the governor saw when it chose the state.
    pub inputs: IdleInputs,
    /// What this CPU did since its last idle period.
    pub before: Before,
    /// Whether the governor asked for the tick to be stopped.
    pub stop_tick: Option<bool>,
    /// Whether the tick woke the CPU.
    pub got_tick: Option<bool>,
    /// Whether polling ended at its time limit.
    pub poll_limit_hit: Option<bool>,
}

/// What a CPU did before it asked its governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Before {
    /// Not recorded.
    #[default]
    Unknown,
    /// Interrupts only, if anything: it has not left the kernel's idle loop since its last idle period.
    IdleLoop,
    /// It ran a task.
    Task,
}

/// What a governor sees when it is asked. Each is `None` where it was not recorded, or where the
/// governor that ran did not ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleInputs {
    /// Time to the next timer if the tick were stopped, in ns (`tick_nohz_get_sleep_length()`).
    pub sleep_length: Option<i64>,
    /// [`IdleInputs::sleep_length`] was not seen but worked out from other events.
    pub inferred: bool,
    /// Time to the next timer or tick, in ns.
    pub delta_tick: Option<i64>,
    /// Whether the tick was stopped already.
    pub tick_stopped: Option<bool>,
    /// Longest tolerated exit latency, in ns.
    pub latency_request: Option<i64>,
    /// Tasks last run on this CPU that wait for I/O.
    pub iowaiters: Option<u32>,
    /// How long before the entry the governor was asked, in ns.
    pub select_lead: Option<u32>,
}
