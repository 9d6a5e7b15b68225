//! Requests with their parts.

use std::collections::VecDeque;
use std::ops::AddAssign;

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
    /// The interrupt found the CPU running.
    Awake,
    /// The CPU was in this state, by index, and the drive's interrupt ended it.
    State(u8),
    /// A timer, a wake-up or another interrupt had ended the CPU's idle period in this state before.
    Leaving(u8),
    /// Another request completed first after the same idle period in this state.
    Behind(u8),
    /// Not known: events are missing.
    Unknown,
}

/// State kept by other CPUs of the interrupted CPU's core, cluster or package at the interrupt; the shallowest, if several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeighbourState {
    /// No other CPU, or none named in the recording.
    #[default]
    None,
    /// Not known: events are missing.
    Unknown,
    /// Another CPU ran, and kept the core, cluster or package awake.
    Running,
    /// All other CPUs were idle; the shallowest state, by index. [`u8::MAX`]: all of them were offline.
    Idle(u8),
}

/// How a CPU was told of a task, or of a completion, that another CPU had for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notification {
    /// No event says how the CPU was told.
    #[default]
    Unknown,
    /// Nobody had to be told: both are one CPU.
    SameCpu,
    /// By IPI.
    Ipi,
    /// By a store, because the CPU polled or monitored.
    Store,
}

/// The way from completion to the task that waited for it. All times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskWake {
    /// Thread number of the task, where known.
    pub task: Option<u32>,
    /// The CPU that the task ran on, where known.
    pub cpu: Option<u32>,
    /// From the drive's completion to the start of the first wake-up, with the flush of the block layer behind a write, if any.
    pub hand_over: u64,
    /// Number of threads that passed the request on before this task's wake-up.
    pub hops: u8,
    /// Time through such threads: first wake-up to this task's wake-up.
    pub through: u64,
    /// This task's wake-up to the end of the idle period on the task's CPU; 0 if the CPU ran.
    pub exit: u64,
    /// Time in the run queue until the task ran, where known.
    pub run_queue: Option<u64>,
    /// How the task's CPU was told to run the task.
    pub notification: Notification,
}

/// Completion on a CPU other than the interrupted CPU. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteCompletion {
    /// Notification to the end of the completing CPU's idle period; 0 if the CPU ran.
    pub exit: u64,
    /// From the end of the completing CPU's idle period to completion.
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
    /// Nobody waits for the request: readahead or write-back.
    pub background: bool,
    /// Number of the submitting thread, where known.
    pub task: Option<u32>,
    /// Time before the issue, where known.
    pub queued: Option<QueuedParts>,
    /// When the request completed, on the recording's clock.
    pub completed: u64,
    /// From issue to completion: `out`, `interrupt` and `remote` together.
    pub latency: u64,
    /// From issue to the interrupted CPU's first sign of life: the end of its idle period or its interrupt handler,
    /// whichever
    /// is first. To completion where no event shows either.
    pub out: u64,
    /// Time within `out` spent in the interrupted CPU's last idle period, exit included; 0 if the CPU ran.
    pub slept: u64,
    /// First sign of life to completion, or to the notification for another CPU; 0 where not visible.
    pub interrupt: u64,
    /// The completing CPU's part, if another CPU than the interrupted one completed.
    pub remote: Option<RemoteCompletion>,
    /// The interrupted CPU: the completing CPU where no event shows another.
    pub cpu: u32,
    /// Number of the device's interrupt, where known.
    pub irq: Option<u32>,
    /// From the device's last completion to the issue; 0 while other requests were in flight.
    pub gap: Option<u64>,
    /// From the interrupted CPU's last completion to the issue; 0 if the completion was later.
    pub cpu_gap: Option<u64>,
    /// Number of other requests at the device when this one was issued.
    pub in_flight: u32,
    /// The interrupted CPU's clock in kHz: by its cycles, else the frequency last asked for; 0 without either.
    pub khz: u32,
    /// The idle state that the interrupted CPU was in at the issue, or else chose first after it.
    pub first: Option<u8>,
    /// Number of the interrupted CPU's idle periods between issue and interrupt.
    pub periods: u32,
    /// Another request completed on the interrupted CPU after the choice of `first`.
    pub overtaken: bool,
    /// The idle state that the interrupt found the CPU in.
    pub met: MetState,
    /// Whether SMT siblings kept the core from the state that was met.
    pub sibling: NeighbourState,
    /// State of the other CPUs in the cluster.
    pub cluster: NeighbourState,
    /// State of the other CPUs in the package.
    pub package: NeighbourState,
    /// The wake-up of a task that followed on the completing CPU, before another completion or a timer.
    pub wake: Option<TaskWake>,
}

impl TracedRequest {
    /// Takes a further SMT sibling into account: a running sibling counts first, then the shallowest idle state.
    pub(crate) fn merge_sibling_state(&mut self, sibling: NeighbourState) {
        self.sibling = match (self.sibling, sibling) {
            (NeighbourState::Running, _) | (_, NeighbourState::Running) => NeighbourState::Running,
            (NeighbourState::Idle(a), NeighbourState::Idle(b)) => NeighbourState::Idle(a.min(b)),
            (NeighbourState::Idle(state), _) | (_, NeighbourState::Idle(state)) => {
                NeighbourState::Idle(state)
            }
            _ => NeighbourState::Unknown,
        };
    }

    /// Smallest size in bytes of the request's size class, which ends below twice as much. 0: flushes.
    pub fn size_class_bytes(&self) -> u32 {
        self.bytes.checked_ilog2().map_or(0, |log| 1 << log)
    }

    /// Notification to completion on another CPU, in ns; 0 if a single CPU does all.
    pub fn remote_completion_ns(&self) -> u64 {
        self.remote
            .map_or(0, |remote| remote.exit + remote.handling)
    }

    /// Sum over all parts: the wait from the bio, or else the issue, until the task ran again, in ns, where known.
    pub fn task_wait_ns(&self) -> Option<u64> {
        let wake = self.wake?;
        let queued = self.queued.map_or(0, |queued| queued.total_ns());
        Some(queued + self.latency + wake.hand_over + wake.through + wake.exit + wake.run_queue?)
    }
}

/// How many requests and events of a recording were used, and how many not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Requests with issue and completion.
    pub requests: u64,
    /// Number of completions without an issue.
    pub without_issue: u64,
    /// Number of issues without a completion, or issued again.
    pub without_completion: u64,
    /// Number of requests that ended behind a flush of the block layer, and whose flush and bio, or data, were not seen.
    pub flushes: u64,
    /// Number of flushes whose end was not seen, though the task queued another, or later flushes ended.
    pub flushes_without_end: u64,
    /// Completions before the issue: CPU clocks differ.
    pub backwards: u64,
    /// Requests beyond [`MAX_REQUESTS`].
    pub beyond_limit: u64,
    /// Number of places where the recording lacks events.
    pub gaps: u64,
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, later: Self) {
        self.requests += later.requests;
        self.without_issue += later.without_issue;
        self.without_completion += later.without_completion;
        self.flushes += later.flushes;
        self.flushes_without_end += later.flushes_without_end;
        self.backwards += later.backwards;
        self.beyond_limit += later.beyond_limit;
        self.gaps += later.gaps;
    }
}

/// A thread that passed a request on to the waiting task, or to the next thread. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the request in [`Collected::requests`].
    pub request: usize,
    /// Number of the thread.
    pub task: u32,
    /// From the thread's wake-up until it ran.
    pub waited: u64,
    /// From when the thread ran to its wake-up of the next thread.
    pub ran: u64,
}

/// Requests in the order of completion. A request keeps its index when older ones are taken out.
#[derive(Default)]
pub(crate) struct RequestLog {
    requests: VecDeque<TracedRequest>,
    /// Index of the oldest request that is still here.
    first: usize,
}

impl RequestLog {
    /// Number of requests that are here.
    pub(crate) fn count(&self) -> usize {
        self.requests.len()
    }

    /// Threads that submitted the requests that are here.
    pub(crate) fn list_tasks(&self) -> impl Iterator<Item = u32> {
        self.requests.iter().filter_map(|request| request.task)
    }

    /// Adds the request that completed last.
    pub(crate) fn push_request(&mut self, request: TracedRequest) {
        self.requests.push_back(request);
    }

    /// Index of the request that is added next.
    pub(crate) fn next_index(&self) -> usize {
        self.first + self.requests.len()
    }

    /// The request with this index, if it is still here.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut TracedRequest> {
        self.requests.get_mut(index.checked_sub(self.first)?)
    }

    /// Takes the requests that completed up to `until_ns`, and the index that the first of these had.
    pub(crate) fn take_completed_until(&mut self, until_ns: u64) -> (usize, Vec<TracedRequest>) {
        let taken = self
            .requests
            .iter()
            .take_while(|request| request.completed <= until_ns)
            .count();
        let first = self.first;
        self.first += taken;
        (first, self.requests.drain(..taken).collect())
    }
}

/// Everything that a recording says about requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Requests in completion order.
    pub requests: Vec<TracedRequest>,
    /// How many requests and events were used.
    pub coverage: Coverage,
    /// How late timers were that ended idle periods, by state.
    pub timers: Vec<TimerLateness>,
    /// Threads that passed requests on to waiting tasks, one entry for each request and thread.
    pub hops: Vec<Hop>,
}

impl Collected {
    /// Keeps the requests of one device, and the hops that belong to these.
    pub fn keep_only_device(&mut self, device: u32) {
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
