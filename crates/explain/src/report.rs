//! Kinds of requests, each with its parts.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::{DataQuality, Metadata};

use crate::bounded_exits::{BoundedExits, estimate_bounded_exits};
use crate::estimate::{Disagreement, ExitEstimate};
use crate::exits_met::ExitsMet;
use crate::help::{Help, find_helpful_remedies};
use crate::lateness::TimerLateness;
use crate::placement::TaskPlacement;
use crate::probes::ProbeCost;
use crate::queueing::QueuedParts;
use crate::replayed::ReplayedHelp;
use crate::requests::{Collected, Coverage, MetState, NeighbourState, Notification, TracedRequest};
use crate::residency::ResidencyShares;
use crate::slowest::SlowestRequests;
use crate::split::{Split, split_drive_from_exits};
use crate::waits::{TaskWaits, latency_at_percent, task_name};

/// Means over a kind's requests, in ns. `out`, `interrupt`, `remote_exit` and `remote` add up to the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeanParts {
    /// Issue to completion.
    pub latency_ns: f64,
    /// From issue to the interrupted CPU's first sign of life: end of its idle period, or interrupt handler.
    pub out_ns: f64,
    /// From the interrupted CPU's first sign of life to completion, or to its notification of another CPU; 0 where not
    /// visible.
    pub interrupt_ns: f64,
    /// From the notification of another CPU that completes to the end of that CPU's idle period.
    pub remote_exit_ns: f64,
    /// From the end of the notified CPU's idle period to completion there.
    pub remote_ns: f64,
    /// Before the issue: bio to tag, over requests with a known bio.
    pub tag_ns: f64,
    /// Before the issue: plugged, over requests with a known bio.
    pub plug_ns: f64,
    /// Before the issue: in the I/O scheduler, over requests with a known bio.
    pub scheduler_ns: f64,
    /// Before the issue: in the block layer's flush machinery, over requests with a known bio.
    pub flush_ns: f64,
    /// From completion to the task's wake-up, over requests that woke a task.
    pub hand_over_ns: f64,
    /// From wake-up to the end of the idle period of the task's CPU, over requests that woke a task.
    pub task_exit_ns: f64,
}

/// Means over requests with a task that was seen to run again, in ns. All parts add up to the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitParts {
    /// How many.
    pub requests: u64,
    /// The whole wait: from the bio, or else the issue, until the task ran.
    pub wait_ns: f64,
    /// Before the issue.
    pub queued_ns: f64,
    /// Issue to completion.
    pub latency_ns: f64,
    /// From completion to the first wake-up of a task.
    pub hand_over_ns: f64,
    /// From the first wake-up to the waiting task's wake-up: through other threads.
    pub through_ns: f64,
    /// Wake-up to the end of the idle period on the task's CPU.
    pub task_exit_ns: f64,
    /// Time in the run queue until the task ran.
    pub run_queue_ns: f64,
    /// Tasks woken by IPI from another CPU.
    pub by_ipi: u64,
    /// Tasks woken by a store from another CPU.
    pub by_store: u64,
}

/// Clocks of interrupted CPUs, over requests with a known clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockRange {
    /// How many requests.
    pub requests: u64,
    /// Slowest clock of a request, in kHz.
    pub lowest_khz: u32,
    /// Mean clock over the requests, in kHz.
    pub mean_khz: u32,
    /// Fastest clock of a request, in kHz.
    pub highest_khz: u32,
}

impl ClockRange {
    fn from_requests(group: &[&TracedRequest]) -> Option<Self> {
        let known = group
            .iter()
            .map(|request| request.khz)
            .filter(|khz| *khz > 0);
        let requests = known.clone().count() as u64;
        let sum: u64 = known.clone().map(u64::from).sum();
        Some(Self {
            requests,
            lowest_khz: known.clone().min()?,
            mean_khz: u32::try_from(sum / requests).ok()?,
            highest_khz: known.max()?,
        })
    }
}

/// Requests with the same device, direction and size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestKind {
    /// The drive: the kernel's name, or `major:minor`.
    pub device: String,
    /// The requests write or discard.
    pub write: bool,
    /// Nobody waits for these requests: readahead or write-back.
    pub background: bool,
    /// Smallest size in bytes; the class ends below twice as much. 0: flushes.
    pub bytes: u32,
    /// The submitting process or cgroup, where kinds are told apart by submitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter: Option<String>,
    /// How many.
    pub requests: u64,
    /// Number of requests with a known time before the issue.
    pub queued: u64,
    /// Number of requests that woke a task up.
    pub woke: u64,
    /// Number of requests completed by another CPU than the interrupted one.
    pub remote: u64,
    /// Number of requests whose interrupt found the CPU running.
    pub awake: u64,
    /// Number of requests whose interrupt came when something else had ended the CPU's idle period.
    pub leaving: u64,
    /// Number of requests that completed behind another request of the same idle period.
    pub behind: u64,
    /// Number of requests for which events are missing.
    pub unknown: u64,
    /// Number of requests whose interrupt found the core kept awake by an SMT sibling.
    pub sibling_ran: u64,
    /// Number of requests during which the governor chose an idle state more than once.
    pub chosen_anew: u64,
    /// Measured means.
    pub parts: MeanParts,
    /// Clocks of interrupted CPUs; `None` if no request has a known clock.
    pub clock: Option<ClockRange>,
    /// Mean waits until tasks ran again; `None` if no task was seen to do so.
    pub wait: Option<WaitParts>,
    /// Who waited, and how long at most; `None` where `wait` is.
    pub waits: Option<TaskWaits>,
    /// Median latency from issue to completion, in ns.
    pub median_ns: u64,
    /// 99th percentile of the latency from issue to completion, in ns.
    pub p99_ns: u64,
    /// Requests at or above that percentile.
    pub slowest: SlowestRequests,
    /// Cost of exits by idle state, and what is left of the drive.
    pub split: Split,
    /// Names of idle states by index; empty where CPUs differ.
    pub state_names: BTreeMap<u8, String>,
    /// Declared exit latency of the split's reference in us, rounded up, so that a limit of it keeps the state. The lowest
    /// where CPUs differ. `None` if it is unknown or 0.
    pub reference_exit_us: Option<u64>,
    /// Idle states that spin: their exit takes next to no time, and so fixes the zero of costs.
    pub polling: Vec<u8>,
    /// Changes to the machine that would save time for this kind.
    pub help: Vec<Help>,
    /// CPUs of requests whose tasks were woken by another CPU.
    pub placement: TaskPlacement,
    /// Mean time from issue to the interrupted CPU's first sign of life in ns, without charged exits, late exits and exits begun by
    /// something else: the drive, and the exit of the reference state unless that is measured. Without a reference: the drive, where CPUs ran
    /// or spun; `None` elsewhere.
    pub rest_ns: Option<f64>,
    /// Exits by experiment for states that requests met, by index; empty where nothing is measured.
    pub measured: BTreeMap<u8, ExitEstimate>,
    /// Mean time per request in the reference's exit, over all requests of the kind; `None` where that exit is not measured.
    pub reference_exit: Option<ExitEstimate>,
    /// States whose estimates contradict each other.
    pub disagreements: Vec<Disagreement>,
    /// Exits begun by something else; `None` if no state has a cost.
    pub begun_exits: Option<BoundedExits>,
    /// Exits from states with a cost, by requests that met the state later than charged requests; `None` as for `begun_exits`.
    pub late_exits: Option<BoundedExits>,
}

/// Requests by who submitted them: a process or a cgroup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubmitterParts {
    /// The submitting thread's name, or the path of its cgroup.
    pub name: String,
    /// How many.
    pub requests: u64,
    /// Mean latency from issue to completion, in ns.
    pub latency_ns: f64,
    /// Mean waits until tasks ran again; `None` if no task was seen to do so.
    pub wait: Option<WaitParts>,
}

/// Requests by interrupt and interrupted CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InterruptParts {
    /// The interrupt's name, or number; empty where no device's interrupt was seen.
    pub name: String,
    /// The interrupted CPU.
    pub cpu: u32,
    /// How many requests.
    pub requests: u64,
    /// Number of requests completed by another CPU.
    pub remote: u64,
    /// Mean time from issue to the CPU's first sign of life, in ns.
    pub out_ns: f64,
    /// Mean time from the CPU's first sign of life to completion, or to another CPU's notification, in ns.
    pub interrupt_ns: f64,
}

/// A thread between completions and waiting tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HopParts {
    /// The thread's name.
    pub name: String,
    /// Number of requests that went through the thread.
    pub requests: u64,
    /// Mean time from the thread's wake-up until it ran, in ns.
    pub waited_ns: f64,
    /// Mean time from when the thread ran to its wake-up of the next task, in ns.
    pub ran_ns: f64,
}

/// A whole recording, explained: the kinds with most time first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// How many events of the recording were used.
    pub coverage: Coverage,
    /// The kinds.
    pub kinds: Vec<RequestKind>,
    /// Processes, by falling number of requests; empty where submitters are not known.
    pub processes: Vec<SubmitterParts>,
    /// Cgroups, by falling number of requests; empty where cgroups of submitters are not known.
    pub cgroups: Vec<SubmitterParts>,
    /// Interrupts and CPUs, by falling number of requests.
    pub interrupts: Vec<InterruptParts>,
    /// Threads that passed requests on to waiting tasks, by falling number of requests.
    pub hops: Vec<HopParts>,
    /// Timer lateness by state, a second estimate for exits; empty where deadlines are not known.
    pub timers: Vec<TimerLateness>,
    /// Names of idle states in which the CPU's own timer stops: another CPU's timer ends them, and they are not in `timers`.
    pub timer_stops: Vec<String>,
    /// Idle states as asked for and as reached, over all CPUs; `None` where nobody read the counters.
    pub residency: Option<ResidencyShares>,
    /// Time added by the probes; measured live only.
    pub probes: Option<ProbeCost>,
    /// Other policies on this recording, by replay; `None` if not replayed.
    pub replayed: Option<Vec<ReplayedHelp>>,
}

/// What tells submitters of requests apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitter {
    /// The submitting thread's name.
    Process,
    /// The submitting thread's cgroup.
    Cgroup,
}

impl Submitter {
    /// Name of the process or cgroup that submitted a request; `None` where it is not known.
    fn find_name(self, request: &TracedRequest, metadata: &Metadata) -> Option<String> {
        let task = request.task?;
        match self {
            Self::Process => Some(task_name(task, metadata)),
            Self::Cgroup => metadata.cgroups.get(&task).cloned(),
        }
    }
}

/// Properties that all requests of a kind share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct KindKey {
    device: u32,
    write: bool,
    background: bool,
    bytes: u32,
    submitter: Option<String>,
}

impl KindKey {
    fn from_request(request: &TracedRequest, by: Option<Submitter>, metadata: &Metadata) -> Self {
        let submitter = by.map(|by| by.find_name(request, metadata));
        Self {
            device: request.device,
            write: request.write,
            background: request.background,
            bytes: request.size_class_bytes(),
            submitter: submitter.map(|name| name.unwrap_or_else(|| UNKNOWN_SUBMITTER.to_owned())),
        }
    }
}

/// Name of the submitter of requests whose bio, thread or cgroup was not seen.
const UNKNOWN_SUBMITTER: &str = "unknown";

/// Explains requests with the recorded machine's description.
pub fn explain_requests(collected: &Collected, metadata: &Metadata) -> Explanation {
    let groups = explain_request_kinds(collected, None, metadata);
    assemble_explanation(&groups, collected, metadata)
}

/// A kind with all requests, in completion order.
#[derive(Clone, Debug, PartialEq)]
pub struct KindGroup<'a> {
    /// The kind, with its means and costs.
    pub kind: RequestKind,
    /// All requests of the kind.
    pub requests: Vec<&'a TracedRequest>,
}

/// Explains each kind of requests; the kind with most time comes first. Kinds are device, direction and size class, and with
/// `by` also the submitter.
pub fn explain_request_kinds<'a>(
    collected: &'a Collected,
    by: Option<Submitter>,
    metadata: &Metadata,
) -> Vec<KindGroup<'a>> {
    let grouped = group_kinds(&collected.requests, by, metadata).into_iter();
    let mut groups: Vec<KindGroup<'a>> = grouped
        .map(|(key, requests)| KindGroup {
            kind: explain_kind(key, &requests, metadata),
            requests,
        })
        .collect();
    groups.sort_by(|a, b| {
        b.kind
            .total_latency_ns()
            .total_cmp(&a.kind.total_latency_ns())
    });
    groups
}

/// Puts explained kinds beside processes, interrupts, threads and timers.
pub fn assemble_explanation(
    groups: &[KindGroup<'_>],
    collected: &Collected,
    metadata: &Metadata,
) -> Explanation {
    let requests = &collected.requests;
    Explanation {
        coverage: collected.coverage,
        kinds: groups.iter().map(|group| group.kind.clone()).collect(),
        processes: explain_submitters(requests, Submitter::Process, metadata),
        cgroups: explain_submitters(requests, Submitter::Cgroup, metadata),
        interrupts: explain_interrupts(requests, metadata),
        hops: explain_passing_threads(collected, metadata),
        timers: collected.timers.clone(),
        timer_stops: metadata.timer_stops.clone(),
        residency: ResidencyShares::from_metadata(metadata),
        probes: None,
        replayed: None,
    }
}

/// Requests by kind.
fn group_kinds<'a>(
    requests: &'a [TracedRequest],
    by: Option<Submitter>,
    metadata: &Metadata,
) -> BTreeMap<KindKey, Vec<&'a TracedRequest>> {
    let mut groups: BTreeMap<KindKey, Vec<&TracedRequest>> = BTreeMap::new();
    for request in requests {
        groups
            .entry(KindKey::from_request(request, by, metadata))
            .or_default()
            .push(request);
    }
    groups
}

/// Threads that passed requests on, by name; those with most requests first.
fn explain_passing_threads(collected: &Collected, metadata: &Metadata) -> Vec<HopParts> {
    let mut threads: BTreeMap<String, HopParts> = BTreeMap::new();
    for hop in &collected.hops {
        let name = task_name(hop.task, metadata);
        let parts = threads.entry(name).or_default();
        parts.requests += 1;
        parts.waited_ns += hop.waited as f64;
        parts.ran_ns += hop.ran as f64;
    }
    let named = threads.into_iter().map(|(name, sums)| HopParts {
        name,
        requests: sums.requests,
        waited_ns: sums.waited_ns / sums.requests as f64,
        ran_ns: sums.ran_ns / sums.requests as f64,
    });
    let mut hops: Vec<HopParts> = named.collect();
    hops.sort_by_key(|hop| std::cmp::Reverse(hop.requests));
    hops
}

/// Mean time over requests; 0 without requests.
fn mean_ns(requests: &[&TracedRequest], value: impl Fn(&TracedRequest) -> u64) -> f64 {
    let sum: u128 = requests.iter().map(|r| u128::from(value(r))).sum();
    sum as f64 / requests.len().max(1) as f64
}

fn mean_parts(
    group: &[&TracedRequest],
    queued: &[&TracedRequest],
    woke: &[&TracedRequest],
) -> MeanParts {
    let before =
        |part: fn(&QueuedParts) -> u64| mean_ns(queued, |r| r.queued.as_ref().map_or(0, part));
    MeanParts {
        latency_ns: mean_ns(group, |r| r.latency),
        out_ns: mean_ns(group, |r| r.out),
        interrupt_ns: mean_ns(group, |r| r.interrupt),
        remote_exit_ns: mean_ns(group, |r| r.remote.map_or(0, |remote| remote.exit)),
        remote_ns: mean_ns(group, |r| r.remote.map_or(0, |remote| remote.handling)),
        tag_ns: before(|queued| queued.tag),
        plug_ns: before(|queued| queued.plug),
        scheduler_ns: before(|queued| queued.scheduler),
        flush_ns: before(|queued| queued.flush),
        hand_over_ns: mean_ns(woke, |r| r.wake.map_or(0, |wake| wake.hand_over)),
        task_exit_ns: mean_ns(woke, |r| r.wake.map_or(0, |wake| wake.exit)),
    }
}

/// Means of the parts of waits, over requests whose task was seen to run again; `None` without any.
fn mean_wait_parts(group: &[&TracedRequest]) -> Option<WaitParts> {
    let waited: Vec<&TracedRequest> = filter_requests(group, |r| r.task_wait_ns().is_some());
    if waited.is_empty() {
        return None;
    }
    Some(WaitParts {
        requests: waited.len() as u64,
        wait_ns: mean_ns(&waited, |r| r.task_wait_ns().unwrap_or(0)),
        queued_ns: mean_ns(&waited, |r| r.queued.map_or(0, |queued| queued.total_ns())),
        latency_ns: mean_ns(&waited, |r| r.latency),
        hand_over_ns: mean_ns(&waited, |r| r.wake.map_or(0, |wake| wake.hand_over)),
        through_ns: mean_ns(&waited, |r| r.wake.map_or(0, |wake| wake.through)),
        task_exit_ns: mean_ns(&waited, |r| r.wake.map_or(0, |wake| wake.exit)),
        run_queue_ns: mean_ns(&waited, |r| {
            r.wake.and_then(|wake| wake.run_queue).unwrap_or(0)
        }),
        by_ipi: count_tasks_notified_by(&waited, Notification::Ipi),
        by_store: count_tasks_notified_by(&waited, Notification::Store),
    })
}

fn count_tasks_notified_by(requests: &[&TracedRequest], notification: Notification) -> u64 {
    let notified = filter_requests(requests, |r| {
        r.wake.is_some_and(|wake| wake.notification == notification)
    });
    notified.len() as u64
}

fn filter_requests<'a>(
    group: &[&'a TracedRequest],
    test: impl Fn(&TracedRequest) -> bool,
) -> Vec<&'a TracedRequest> {
    group.iter().copied().filter(|r| test(r)).collect()
}

/// Requests in groups, the largest first; equally large groups by key.
fn group_by_falling_size<K: Ord + Clone>(
    requests: &[TracedRequest],
    key: impl Fn(&TracedRequest) -> Option<K>,
) -> Vec<(K, Vec<&TracedRequest>)> {
    let mut groups: BTreeMap<K, Vec<&TracedRequest>> = BTreeMap::new();
    for request in requests {
        if let Some(key) = key(request) {
            groups.entry(key).or_default().push(request);
        }
    }
    let mut sorted: Vec<_> = groups.into_iter().collect();
    sorted.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    sorted
}

fn explain_submitters(
    requests: &[TracedRequest],
    submitter: Submitter,
    metadata: &Metadata,
) -> Vec<SubmitterParts> {
    let groups = group_by_falling_size(requests, |request| submitter.find_name(request, metadata));
    let parts = groups.into_iter().map(|(name, group)| SubmitterParts {
        name,
        requests: group.len() as u64,
        latency_ns: mean_ns(&group, |r| r.latency),
        wait: mean_wait_parts(&group),
    });
    parts.collect()
}

fn explain_interrupts(requests: &[TracedRequest], metadata: &Metadata) -> Vec<InterruptParts> {
    let groups = group_by_falling_size(requests, |request| Some((request.irq, request.cpu)));
    let parts = groups
        .into_iter()
        .map(|((irq, cpu), group)| InterruptParts {
            name: irq.map_or_else(String::new, |irq| {
                let name = metadata.interrupts.get(&irq).cloned();
                name.unwrap_or_else(|| format!("irq {irq}"))
            }),
            cpu,
            requests: group.len() as u64,
            remote: filter_requests(&group, |r| r.remote.is_some()).len() as u64,
            out_ns: mean_ns(&group, |r| r.out),
            interrupt_ns: mean_ns(&group, |r| r.interrupt),
        });
    parts.collect()
}

fn explain_kind(key: KindKey, group: &[&TracedRequest], metadata: &Metadata) -> RequestKind {
    let requests = group.len() as u64;
    let queued = filter_requests(group, |r| r.queued.is_some());
    let woke = filter_requests(group, |r| r.wake.is_some());
    let parts = mean_parts(group, &queued, &woke);
    let mut latencies: Vec<u64> = group.iter().map(|r| r.latency).collect();
    latencies.sort_unstable();
    let p99_ns = latency_at_percent(&latencies, 99);
    let (state_names, polling) = state_names_and_polling_states(metadata);
    let mut split = split_drive_from_exits(group);
    // Without idle periods in the recording, every CPU seems to run.
    let exits_met = (split.reference.is_none() && metadata.recorded.idle != DataQuality::Missing)
        .then(|| ExitsMet::find(group, &polling));
    if let Some(ExitsMet::OnlyFrom(only)) = exits_met {
        split.set_only_state(only);
    }
    let drive_is_known = split.reference.is_some() || exits_met == Some(ExitsMet::Nothing);
    let charged: f64 = split
        .states
        .iter()
        .filter_map(|state| Some(state.cost?.mean_ns * state.charged as f64))
        .sum();
    let bounded = split
        .reference
        .map(|_| estimate_bounded_exits(group, &split));
    let bounded_ns = bounded.map_or(0.0, |exits| exits.begun.mean_ns + exits.late.mean_ns);
    let rest = parts.out_ns - charged / requests.max(1) as f64 - bounded_ns;
    RequestKind {
        device: metadata.device_name_or_numbers(key.device),
        write: key.write,
        background: key.background,
        bytes: key.bytes,
        submitter: key.submitter,
        requests,
        queued: queued.len() as u64,
        woke: woke.len() as u64,
        remote: count_matching(group, |r| r.remote.is_some()),
        awake: count_matching(group, |r| r.met == MetState::Awake),
        leaving: count_matching(group, |r| matches!(r.met, MetState::Leaving(_))),
        behind: count_matching(group, |r| matches!(r.met, MetState::Behind(_))),
        sibling_ran: count_matching(group, |r| r.sibling == NeighbourState::Running),
        unknown: count_matching(group, |r| r.met == MetState::Unknown),
        chosen_anew: count_matching(group, |r| r.periods > 1),
        parts,
        clock: ClockRange::from_requests(group),
        wait: mean_wait_parts(group),
        waits: TaskWaits::from_requests(group, metadata),
        median_ns: latency_at_percent(&latencies, 50),
        p99_ns,
        slowest: SlowestRequests::from_requests(group, p99_ns),
        help: find_helpful_remedies(group, &split, parts.latency_ns, metadata),
        placement: TaskPlacement::from_requests(group),
        rest_ns: drive_is_known.then_some(rest),
        measured: BTreeMap::new(),
        reference_exit: None,
        disagreements: Vec::new(),
        begun_exits: bounded.map(|exits| exits.begun),
        late_exits: bounded.map(|exits| exits.late),
        reference_exit_us: split
            .reference
            .and_then(|state| lowest_declared_exit_us(state, metadata)),
        split,
        state_names,
        polling,
    }
}

fn count_matching(group: &[&TracedRequest], test: fn(&TracedRequest) -> bool) -> u64 {
    group.iter().filter(|request| test(request)).count() as u64
}

/// The lowest declared exit latency of a state in us, rounded up; `None` if it is unknown or 0.
fn lowest_declared_exit_us(state: u8, metadata: &Metadata) -> Option<u64> {
    let groups = metadata.idle_states.iter();
    let states = groups.filter_map(|group| group.states.get(usize::from(state)));
    let lowest = states
        .map(|state| state.exit_latency.0.div_ceil(1_000))
        .min();
    lowest.filter(|us| *us > 0)
}

/// Names of idle states by index, and indices of spinning states; none where CPUs have different states.
fn state_names_and_polling_states(metadata: &Metadata) -> (BTreeMap<u8, String>, Vec<u8>) {
    let [group] = &metadata.idle_states[..] else {
        return (BTreeMap::new(), Vec::new());
    };
    let numbered = (0..=u8::MAX).zip(&group.states);
    let named = numbered.clone();
    let names = named.map(|(index, state)| (index, state.name.clone()));
    let polling = numbered.filter(|(_, state)| state.polling);
    (names.collect(), polling.map(|(index, _)| index).collect())
}

impl RequestKind {
    /// Summed latency of all requests of the kind, in ns.
    pub fn total_latency_ns(&self) -> f64 {
        self.parts.latency_ns * self.requests as f64
    }

    /// A number of requests as a share of the kind's, 0 to 1.
    pub fn share_of_requests(&self, met: u64) -> f64 {
        met as f64 / self.requests.max(1) as f64
    }

    /// 95 % interval of [`RequestKind::rest_ns`] in ns: that of the exits charged and of the measured reference, for this mean
    /// latency. `None` where neither is known.
    pub fn rest_interval_ns(&self) -> Option<[f64; 2]> {
        let rest = self.rest_ns?;
        let taken_off = [self.split.charged, self.reference_exit];
        let known = taken_off.iter().flatten();
        known.clone().next()?;
        let [less, more] = known.fold([0.0_f64; 2], |[less, more], exit| {
            [
                less.hypot(exit.high_ns - exit.mean_ns),
                more.hypot(exit.mean_ns - exit.low_ns),
            ]
        });
        Some([rest - less, rest + more])
    }

    /// Estimated exit from the idle state met by a request, in ns; 0 for states without a cost. It is above the reference's
    /// exit, unless that is measured.
    pub fn estimated_exit(&self, request: &TracedRequest) -> u64 {
        let MetState::State(met) = request.met else {
            return 0;
        };
        let Some(above_reference) = self.split.known_exit_for(request, met) else {
            return 0;
        };
        let reference = self.measured_reference_exit();
        let reference_ns = reference.map_or(0, |exit| exit.mean_ns.round() as u64);
        (above_reference + reference_ns).min(request.out)
    }

    /// Whether requests had exits that neither a cost nor an estimate tells. Beside a reference that nothing was compared with, the
    /// exits of other states are next to nothing.
    pub fn has_unknown_exits(&self) -> bool {
        let states = self.split.states.iter();
        let not_charged: u64 = states
            .filter(|state| !self.polling.contains(&state.state))
            .map(|state| state.met - state.charged)
            .sum();
        self.split.charged.is_some() && not_charged > self.estimated_late_exits()
    }

    /// Number of requests whose late exits have an estimate.
    pub(crate) fn estimated_late_exits(&self) -> u64 {
        self.late_exits.map_or(0, |late| late.estimated)
    }

    /// Name of an idle state, or else `state INDEX`.
    pub fn state_name(&self, state: u8) -> String {
        let name = self.state_names.get(&state);
        name.cloned().unwrap_or_else(|| format!("state {state}"))
    }
}
