//! Requests with their parts.

use serde::Serialize;

use crate::lateness::TimerLateness;
use crate::queueing::QueuedParts;

/// Requests kept in memory. Later ones are counted only.
pub const MAX_REQUESTS: usize = 2_000_000;
/// Threads followed between a completion and the waiting task.
pub(crate) const MAX_HOPS: usize = 8;

/// The interrupted CPU's idle state, as found by the drive's interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetState {
    /// None: the CPU was running.
    Awake,
    /// This state, ended first by the drive's interrupt.
    State(u8),
    /// A timer, a wake-up or another interrupt had ended the idle period before.
    Leaving,
    /// Another request completed first.
    Behind,
    /// Events are missing.
    Unknown,
}

/// State kept by the interrupted CPU's SMT siblings at the interrupt; the shallowest, if several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sibling {
    /// No sibling, or none named in the recording.
    #[default]
    None,
    /// Events are missing.
    Unknown,
    /// A running sibling kept the core awake.
    Running,
    /// It was in this idle state.
    Idle(u8),
}

/// How a CPU was told of a task, or of a completion, that another CPU had for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notification {
    /// No event says how.
    #[default]
    Unknown,
    /// Both are one CPU.
    SameCpu,
    /// By IPI.
    Ipi,
    /// By a store, because the CPU polled or monitored.
    Store,
}

/// The way from completion to the task that waited for it. All times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskWake {
    /// The task, where known.
    pub task: Option<u32>,
    /// Completion to the start of the first wake-up.
    pub hand_over: u64,
    /// Threads that passed the request on before this task's wake-up.
    pub hops: u8,
    /// Time through such threads: first wake-up to this task's wake-up.
    pub through: u64,
    /// This task's wake-up to the end of the idle period on the task's CPU; 0 if the CPU ran.
    pub exit: u64,
    /// Time in the run queue until the task ran, where known.
    pub run_queue: Option<u64>,
    /// Notification used for the task's CPU.
    pub notification: Notification,
}

/// Completion on a CPU other than the interrupted CPU. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteCompletion {
    /// Notification to the end of the completing CPU's idle period; 0 if the CPU ran.
    pub exit: u64,
    /// End of the idle period to completion.
    pub handling: u64,
    /// How the completing CPU was told.
    pub notification: Notification,
}

/// A completed request. All times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// Device number as in [`wakepath_trace::recording::Block::device`].
    pub device: u32,
    /// Bytes to transfer.
    pub bytes: u32,
    /// The request writes or discards.
    pub write: bool,
    /// Readahead or write-back: nobody waits for it.
    pub background: bool,
    /// The submitting thread, where known.
    pub task: Option<u32>,
    /// Time before the issue, where known.
    pub queued: Option<QueuedParts>,
    /// Completion on the recording's clock.
    pub completed: u64,
    /// From issue to completion: `out`, `interrupt` and `remote` together.
    pub latency: u64,
    /// From issue to the interrupted CPU's first sign of life: the end of its idle period or its interrupt handler, whichever
    /// is first. To completion where no event shows either.
    pub out: u64,
    /// First sign of life to completion, or to the notification for another CPU; 0 where not visible.
    pub interrupt: u64,
    /// Completion on another CPU, if so.
    pub remote: Option<RemoteCompletion>,
    /// The interrupted CPU: the completing CPU where no event shows another.
    pub cpu: u32,
    /// The device's interrupt, where known.
    pub irq: Option<u32>,
    /// From the device's last completion to the issue; 0 while other requests were in flight.
    pub gap: Option<u64>,
    /// From the interrupted CPU's last completion to the issue; 0 if the completion was later.
    pub cpu_gap: Option<u64>,
    /// Other requests at the device at the issue.
    pub in_flight: u32,
    /// The interrupted CPU's frequency in kHz; 0 without an event.
    pub khz: u32,
    /// The interrupted CPU's state at issue, or else first choice afterwards.
    pub first: Option<u8>,
    /// The interrupted CPU's idle periods between issue and interrupt.
    pub periods: u32,
    /// The state found by the interrupt.
    pub met: MetState,
    /// Siblings that kept the core from the state met.
    pub sibling: Sibling,
    /// The wake-up on the completing CPU before another completion or a timer.
    pub wake: Option<TaskWake>,
}

impl TracedRequest {
    /// Adds a sibling's state; among several siblings the shallowest counts.
    pub(crate) fn see_sibling(&mut self, sibling: Sibling) {
        self.sibling = match (self.sibling, sibling) {
            (Sibling::Running, _) | (_, Sibling::Running) => Sibling::Running,
            (Sibling::Idle(a), Sibling::Idle(b)) => Sibling::Idle(a.min(b)),
            (Sibling::Idle(state), _) | (_, Sibling::Idle(state)) => Sibling::Idle(state),
            _ => Sibling::Unknown,
        };
    }

    /// Notification to completion on another CPU, in ns; 0 if a single CPU does all.
    pub fn remote_ns(&self) -> u64 {
        self.remote
            .map_or(0, |remote| remote.exit + remote.handling)
    }

    /// Sum over all parts: the wait from the bio, or else the issue, until the task ran again, in ns, where known.
    pub fn wait_ns(&self) -> Option<u64> {
        let wake = self.wake?;
        let queued = self.queued.map_or(0, |queued| queued.total());
        Some(queued + self.latency + wake.hand_over + wake.through + wake.exit + wake.run_queue?)
    }
}

/// Used and unused events in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Requests with issue and completion.
    pub requests: u64,
    /// Completions without an issue.
    pub without_issue: u64,
    /// Issues without a completion, or issued again.
    pub without_completion: u64,
    /// Completions before the issue: CPU clocks differ.
    pub backwards: u64,
    /// Requests beyond [`MAX_REQUESTS`].
    pub beyond_limit: u64,
    /// Places where the recording lacks events.
    pub gaps: u64,
}

/// A thread that passed a request on to the waiting task, or to the next thread. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The request's index.
    pub request: usize,
    /// The thread.
    pub task: u32,
    /// Wake-up to running.
    pub waited: u64,
    /// Running to the next thread's wake-up.
    pub ran: u64,
}

/// Everything that a recording says about requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Requests in completion order.
    pub requests: Vec<TracedRequest>,
    /// Used and unused events.
    pub coverage: Coverage,
    /// Lateness by state, over timers that ended idle periods.
    pub timers: Vec<TimerLateness>,
    /// Threads that passed requests on.
    pub hops: Vec<Hop>,
}

impl Collected {
    /// Leaves out other devices' requests.
    pub fn keep_device(&mut self, device: u32) {
        let mut places: Vec<Option<usize>> = Vec::with_capacity(self.requests.len());
        let mut kept = 0;
        for request in &self.requests {
            let is_kept = request.device == device;
            places.push(is_kept.then_some(kept));
            kept += usize::from(is_kept);
        }
        self.requests.retain(|request| request.device == device);
        self.hops.retain_mut(|hop| match places.get(hop.request) {
            Some(Some(place)) => {
                hop.request = *place;
                true
            }
            _ => false,
        });
    }
}
