//! Requests with their parts.

use serde::Serialize;

use crate::lateness::TimerLateness;
use crate::queueing::QueuedParts;

/// Requests kept in memory. Later ones are counted only.
pub const MAX_REQUESTS: usize = 2_000_000;
/// Threads between a completion and the waiting task that are followed.
pub(crate) const MAX_HOPS: usize = 8;

/// The idle state of the interrupted CPU that the drive's interrupt found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetState {
    /// None: the CPU was running.
    Awake,
    /// This state, and the drive's interrupt was the first to end it.
    State(u8),
    /// A timer, a wake-up or another interrupt had ended the idle period before.
    Leaving,
    /// Another request completed first.
    Behind,
    /// Events are missing.
    Unknown,
}

/// What the SMT sibling of the interrupted CPU did when the interrupt came; of several, the one in the shallowest state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sibling {
    /// There is none, or the recording does not name it.
    #[default]
    None,
    /// Events are missing.
    Unknown,
    /// It ran, and kept the core awake.
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
    /// From completion to the start of the first wake-up.
    pub hand_over: u64,
    /// Threads that passed the request on before this task was woken.
    pub hops: u8,
    /// Their time: from the first wake-up to the wake-up of this task.
    pub through: u64,
    /// From there to the end of the idle period of the task's CPU; 0 if that CPU ran.
    pub exit: u64,
    /// From there until the task ran, where known.
    pub run_queue: Option<u64>,
    /// How its CPU was told.
    pub notification: Notification,
}

/// A request whose interrupt was taken by one CPU, and whose completion ran on another. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteCompletion {
    /// From the notification to the end of the completing CPU's idle period; 0 if that CPU ran.
    pub exit: u64,
    /// From there to completion.
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
    /// It writes or discards.
    pub write: bool,
    /// Readahead or write-back: nobody waits for it.
    pub background: bool,
    /// The thread that submitted it, where known.
    pub task: Option<u32>,
    /// Time before the issue, where known.
    pub queued: Option<QueuedParts>,
    /// Completion on the recording's clock.
    pub completed: u64,
    /// From issue to completion: `out`, `interrupt`, and what `remote` has.
    pub latency: u64,
    /// From issue to the interrupted CPU's first sign of life: the end of its idle period or its interrupt handler, whichever
    /// is first. To completion where no event shows either.
    pub out: u64,
    /// From there to completion, or until another CPU is told to complete; 0 where it is not visible.
    pub interrupt: u64,
    /// Another CPU completed it.
    pub remote: Option<RemoteCompletion>,
    /// The interrupted CPU: the completing one where no event shows another.
    pub cpu: u32,
    /// The device's interrupt, where known.
    pub irq: Option<u32>,
    /// From the device's last completion to this issue; 0 while other requests were in flight.
    pub gap: Option<u64>,
    /// Other requests at the device when this one was issued.
    pub in_flight: u32,
    /// Frequency of the interrupted CPU in kHz; 0 where no event says it.
    pub khz: u32,
    /// The state that the interrupted CPU was in at issue, or chose first afterwards.
    pub first: Option<u8>,
    /// Idle periods of that CPU between issue and its interrupt.
    pub periods: u32,
    /// What the interrupt found.
    pub met: MetState,
    /// What kept the core from the state that was met.
    pub sibling: Sibling,
    /// The wake-up that followed on the completing CPU, before another completion or a timer.
    pub wake: Option<TaskWake>,
}

impl TracedRequest {
    /// Takes what a sibling did, of several the one that allows least.
    pub(crate) fn see_sibling(&mut self, sibling: Sibling) {
        self.sibling = match (self.sibling, sibling) {
            (Sibling::Running, _) | (_, Sibling::Running) => Sibling::Running,
            (Sibling::Idle(a), Sibling::Idle(b)) => Sibling::Idle(a.min(b)),
            (Sibling::Idle(state), _) | (_, Sibling::Idle(state)) => Sibling::Idle(state),
            _ => Sibling::Unknown,
        };
    }

    /// From the notification of the completing CPU to completion, in ns; 0 where one CPU does all.
    pub fn remote_ns(&self) -> u64 {
        self.remote
            .map_or(0, |remote| remote.exit + remote.handling)
    }

    /// The wait from the bio, or else the issue, until the task ran again, in ns, where known. It is the sum of all parts.
    pub fn wait_ns(&self) -> Option<u64> {
        let wake = self.wake?;
        let queued = self.queued.map_or(0, |queued| queued.total());
        Some(queued + self.latency + wake.hand_over + wake.through + wake.exit + wake.run_queue?)
    }
}

/// What of a recording was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Requests with issue and completion.
    pub requests: u64,
    /// Completions without an issue.
    pub without_issue: u64,
    /// Issues without a completion, or issued again.
    pub without_completion: u64,
    /// Completions before their issue: the clocks of CPUs differ.
    pub backwards: u64,
    /// Requests beyond [`MAX_REQUESTS`].
    pub beyond_limit: u64,
    /// Places where the recording lacks events.
    pub gaps: u64,
}

/// A thread that passed a request on to the task that waited, or to the next thread. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the request.
    pub request: usize,
    /// The thread.
    pub task: u32,
    /// From its wake-up until it ran.
    pub waited: u64,
    /// From there until it woke the next one.
    pub ran: u64,
}

/// Everything that a recording says about its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Requests in the order of their completions.
    pub requests: Vec<TracedRequest>,
    /// What of the recording was used.
    pub coverage: Coverage,
    /// Lateness of timers that ended idle periods, by state.
    pub timers: Vec<TimerLateness>,
    /// Threads that passed requests on.
    pub hops: Vec<Hop>,
}

impl Collected {
    /// Leaves out the requests of other devices.
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
