//! Kinds of requests, each with its parts.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::Metadata;

use crate::help::{Help, find_help};
use crate::lateness::TimerLateness;
use crate::probes::ProbeCost;
use crate::queueing::QueuedParts;
use crate::requests::{Collected, Coverage, MetState, Notification, Sibling, TracedRequest};
use crate::split::{Split, split};

/// Means over a kind's requests, in ns. `out`, `interrupt`, `remote_exit` and `remote` add up to the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeanParts {
    /// Issue to completion.
    pub latency_ns: f64,
    /// Issue to the interrupted CPU's first sign of life.
    pub out_ns: f64,
    /// First sign of life to completion, or to the notification for another CPU, where visible.
    pub interrupt_ns: f64,
    /// Notification to the end of the completing CPU's idle period.
    pub remote_exit_ns: f64,
    /// End of the idle period to completion on the notified CPU.
    pub remote_ns: f64,
    /// Before the issue: waiting for a tag, over requests with a known bio.
    pub tag_ns: f64,
    /// Plugged, over the same requests.
    pub plug_ns: f64,
    /// In the scheduler, over the same requests.
    pub scheduler_ns: f64,
    /// Completion to wake-up, over requests that woke a task.
    pub hand_over_ns: f64,
    /// Wake-up to the end of the woken CPU's idle period, over the same requests.
    pub task_exit_ns: f64,
}

/// Means over requests with a task that was seen to run again, in ns. All parts add up to the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitParts {
    /// How many.
    pub requests: u64,
    /// From the bio, or else the issue, until the task ran.
    pub wait_ns: f64,
    /// Before the issue.
    pub queued_ns: f64,
    /// Issue to completion.
    pub latency_ns: f64,
    /// Completion to wake-up.
    pub hand_over_ns: f64,
    /// First wake-up to the waiting task's wake-up: through other threads.
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

/// Requests with the same device, direction and size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestKind {
    /// The kernel's name, or `major:minor`.
    pub device: String,
    /// The requests write or discard.
    pub write: bool,
    /// Nobody waits: readahead or write-back.
    pub background: bool,
    /// Smallest size in bytes; the class ends below twice as much. 0: flushes.
    pub bytes: u32,
    /// How many.
    pub requests: u64,
    /// How many have a known time before the issue.
    pub queued: u64,
    /// How many woke a task up.
    pub woke: u64,
    /// How many were completed by a CPU other than the interrupted CPU.
    pub remote: u64,
    /// How many found the CPU running.
    pub awake: u64,
    /// How many came when something else had ended the idle period.
    pub leaving: u64,
    /// How many completed behind another request.
    pub behind: u64,
    /// How many lack events.
    pub unknown: u64,
    /// How many found the core kept awake by an SMT sibling.
    pub sibling_ran: u64,
    /// How many saw the governor choose again.
    pub chosen_anew: u64,
    /// Measured means.
    pub parts: MeanParts,
    /// Waits until tasks ran again; `None` if no task was seen to do so.
    pub wait: Option<WaitParts>,
    /// Median latency in ns.
    pub median_ns: u64,
    /// 99th percentile latency in ns.
    pub p99_ns: u64,
    /// Costs by idle state.
    pub split: Split,
    /// State names by index.
    pub state_names: BTreeMap<u8, String>,
    /// Declared exit latency of the split's reference in us, rounded up, so that a limit of it keeps the state. The lowest
    /// where CPUs differ. `None` if it is unknown or 0.
    pub reference_exit_us: Option<u64>,
    /// States that spin: an exit takes next to no time, and so fixes the zero.
    pub polling: Vec<u8>,
    /// Changes with a gain for this kind.
    pub help: Vec<Help>,
    /// Mean in ns without charged exits, interrupt and another CPU's part: the drive, and the reference's exit.
    pub rest_ns: Option<f64>,
}

/// Requests by a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessParts {
    /// The submitting thread's name.
    pub name: String,
    /// How many.
    pub requests: u64,
    /// Mean from issue to completion, in ns.
    pub latency_ns: f64,
    /// Waits until tasks ran again; `None` if no task was seen to do so.
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
    /// How many were completed by another CPU.
    pub remote: u64,
    /// Mean from issue to the CPU's first sign of life, in ns.
    pub out_ns: f64,
    /// Mean from the sign of life to completion, or to another CPU's notification, in ns.
    pub interrupt_ns: f64,
}

/// A thread between completions and waiting tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HopParts {
    /// The thread's name.
    pub name: String,
    /// How many requests went through.
    pub requests: u64,
    /// Mean from wake-up to running, in ns.
    pub waited_ns: f64,
    /// Mean from running to the next task's wake-up, in ns.
    pub ran_ns: f64,
}

/// A whole recording, explained: the kinds with most time first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Coverage over the recording.
    pub coverage: Coverage,
    /// The kinds.
    pub kinds: Vec<RequestKind>,
    /// Processes, by falling number of requests; empty where submitters are not known.
    pub processes: Vec<ProcessParts>,
    /// Interrupts and CPUs, by falling number of requests.
    pub interrupts: Vec<InterruptParts>,
    /// Threads that passed requests on to waiting tasks, by name.
    pub hops: Vec<HopParts>,
    /// Timer lateness by state, a second estimate for exits; empty where deadlines are not known.
    pub timers: Vec<TimerLateness>,
    /// Time added by the probes; measured live only.
    pub probes: Option<ProbeCost>,
    /// Other policies on this recording, by replay, if replayed.
    pub replayed: Vec<ReplayedHelp>,
}

/// A replayed policy beside the recorded choices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayedHelp {
    /// The policy set.
    pub policy: String,
    /// Mean time saved per completion, by exit latencies, in ns; negative: added.
    pub saved_ns: f64,
    /// Whether exit latencies are those of a named machine; otherwise those that the recording declares.
    pub exits_of_machine: bool,
    /// Added power in mW, with known machine figures; negative: saved.
    pub added_mw: Option<f64>,
}

/// Common properties within a kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KindKey {
    device: u32,
    write: bool,
    background: bool,
    bytes: u32,
}

impl KindKey {
    fn new(request: &TracedRequest) -> Self {
        Self {
            device: request.device,
            write: request.write,
            background: request.background,
            bytes: request.bytes.checked_ilog2().map_or(0, |log| 1 << log),
        }
    }
}

/// Explains requests with the recorded machine's description.
pub fn explain(collected: &Collected, metadata: &Metadata) -> Explanation {
    summarize(&explain_kinds(collected, metadata), collected, metadata)
}

/// A kind with all requests, in completion order.
#[derive(Clone, Debug, PartialEq)]
pub struct KindGroup<'a> {
    /// The kind.
    pub kind: RequestKind,
    /// The requests.
    pub requests: Vec<&'a TracedRequest>,
}

/// Explains each kind; the kind with most time comes first.
pub fn explain_kinds<'a>(collected: &'a Collected, metadata: &Metadata) -> Vec<KindGroup<'a>> {
    let grouped = group_kinds(&collected.requests).into_iter();
    let mut groups: Vec<KindGroup<'a>> = grouped
        .map(|(key, requests)| KindGroup {
            kind: explain_kind(key, &requests, metadata),
            requests,
        })
        .collect();
    groups.sort_by(|a, b| b.kind.total_ns().total_cmp(&a.kind.total_ns()));
    groups
}

/// Puts explained kinds beside processes, interrupts, threads and timers.
pub fn summarize(
    groups: &[KindGroup<'_>],
    collected: &Collected,
    metadata: &Metadata,
) -> Explanation {
    let requests = &collected.requests;
    Explanation {
        coverage: collected.coverage,
        kinds: groups.iter().map(|group| group.kind.clone()).collect(),
        processes: explain_processes(requests, metadata),
        interrupts: explain_interrupts(requests, metadata),
        hops: explain_hops(collected, metadata),
        timers: collected.timers.clone(),
        probes: None,
        replayed: Vec::new(),
    }
}

/// Requests by kind.
fn group_kinds(requests: &[TracedRequest]) -> BTreeMap<KindKey, Vec<&TracedRequest>> {
    let mut groups: BTreeMap<KindKey, Vec<&TracedRequest>> = BTreeMap::new();
    for request in requests {
        groups
            .entry(KindKey::new(request))
            .or_default()
            .push(request);
    }
    groups
}

/// Hops by thread name, by falling number of requests.
fn explain_hops(collected: &Collected, metadata: &Metadata) -> Vec<HopParts> {
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
fn mean(requests: &[&TracedRequest], value: impl Fn(&TracedRequest) -> u64) -> f64 {
    let sum: u128 = requests.iter().map(|r| u128::from(value(r))).sum();
    sum as f64 / requests.len().max(1) as f64
}

fn mean_parts(
    group: &[&TracedRequest],
    queued: &[&TracedRequest],
    woke: &[&TracedRequest],
) -> MeanParts {
    let before =
        |part: fn(&QueuedParts) -> u64| mean(queued, |r| r.queued.as_ref().map_or(0, part));
    MeanParts {
        latency_ns: mean(group, |r| r.latency),
        out_ns: mean(group, |r| r.out),
        interrupt_ns: mean(group, |r| r.interrupt),
        remote_exit_ns: mean(group, |r| r.remote.map_or(0, |remote| remote.exit)),
        remote_ns: mean(group, |r| r.remote.map_or(0, |remote| remote.handling)),
        tag_ns: before(|queued| queued.tag),
        plug_ns: before(|queued| queued.plug),
        scheduler_ns: before(|queued| queued.scheduler),
        hand_over_ns: mean(woke, |r| r.wake.map_or(0, |wake| wake.hand_over)),
        task_exit_ns: mean(woke, |r| r.wake.map_or(0, |wake| wake.exit)),
    }
}

/// Means over requests with a task that was seen to run again.
fn wait_parts(group: &[&TracedRequest]) -> Option<WaitParts> {
    let waited: Vec<&TracedRequest> = keep(group, |r| r.wait_ns().is_some());
    if waited.is_empty() {
        return None;
    }
    Some(WaitParts {
        requests: waited.len() as u64,
        wait_ns: mean(&waited, |r| r.wait_ns().unwrap_or(0)),
        queued_ns: mean(&waited, |r| r.queued.map_or(0, |queued| queued.total())),
        latency_ns: mean(&waited, |r| r.latency),
        hand_over_ns: mean(&waited, |r| r.wake.map_or(0, |wake| wake.hand_over)),
        through_ns: mean(&waited, |r| r.wake.map_or(0, |wake| wake.through)),
        task_exit_ns: mean(&waited, |r| r.wake.map_or(0, |wake| wake.exit)),
        run_queue_ns: mean(&waited, |r| {
            r.wake.and_then(|wake| wake.run_queue).unwrap_or(0)
        }),
        by_ipi: count_notified(&waited, Notification::Ipi),
        by_store: count_notified(&waited, Notification::Store),
    })
}

fn count_notified(requests: &[&TracedRequest], notification: Notification) -> u64 {
    let notified = keep(requests, |r| {
        r.wake.is_some_and(|wake| wake.notification == notification)
    });
    notified.len() as u64
}

fn keep<'a>(
    group: &[&'a TracedRequest],
    test: impl Fn(&TracedRequest) -> bool,
) -> Vec<&'a TracedRequest> {
    group.iter().copied().filter(|r| test(r)).collect()
}

/// Requests in groups, the largest first; equally large groups by key.
fn group_by<K: Ord + Clone>(
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

fn explain_processes(requests: &[TracedRequest], metadata: &Metadata) -> Vec<ProcessParts> {
    let groups = group_by(requests, |request| Some(task_name(request.task?, metadata)));
    let parts = groups.into_iter().map(|(name, group)| ProcessParts {
        name,
        requests: group.len() as u64,
        latency_ns: mean(&group, |r| r.latency),
        wait: wait_parts(&group),
    });
    parts.collect()
}

fn task_name(task: u32, metadata: &Metadata) -> String {
    let known = metadata.tasks.get(&task).cloned();
    known.unwrap_or_else(|| format!("thread {task}"))
}

fn explain_interrupts(requests: &[TracedRequest], metadata: &Metadata) -> Vec<InterruptParts> {
    let groups = group_by(requests, |request| Some((request.irq, request.cpu)));
    let parts = groups
        .into_iter()
        .map(|((irq, cpu), group)| InterruptParts {
            name: irq.map_or_else(String::new, |irq| {
                let name = metadata.interrupts.get(&irq).cloned();
                name.unwrap_or_else(|| format!("irq {irq}"))
            }),
            cpu,
            requests: group.len() as u64,
            remote: keep(&group, |r| r.remote.is_some()).len() as u64,
            out_ns: mean(&group, |r| r.out),
            interrupt_ns: mean(&group, |r| r.interrupt),
        });
    parts.collect()
}

fn explain_kind(key: KindKey, group: &[&TracedRequest], metadata: &Metadata) -> RequestKind {
    let requests = group.len() as u64;
    let queued = keep(group, |r| r.queued.is_some());
    let woke = keep(group, |r| r.wake.is_some());
    let parts = mean_parts(group, &queued, &woke);
    let mut latencies: Vec<u64> = group.iter().map(|r| r.latency).collect();
    latencies.sort_unstable();
    let split = split(group);
    let charged: f64 = split
        .states
        .iter()
        .filter_map(|state| Some(state.cost?.mean_ns * state.met as f64))
        .sum();
    let others = parts.interrupt_ns + parts.remote_exit_ns + parts.remote_ns;
    let rest = parts.latency_ns - others - charged / requests.max(1) as f64;
    let (state_names, polling) = name_states(metadata);
    RequestKind {
        device: metadata.device_name(key.device),
        write: key.write,
        background: key.background,
        bytes: key.bytes,
        requests,
        queued: queued.len() as u64,
        woke: woke.len() as u64,
        remote: count(group, |r| r.remote.is_some()),
        awake: count(group, |r| r.met == MetState::Awake),
        leaving: count(group, |r| r.met == MetState::Leaving),
        behind: count(group, |r| r.met == MetState::Behind),
        sibling_ran: count(group, |r| r.sibling == Sibling::Running),
        unknown: count(group, |r| r.met == MetState::Unknown),
        chosen_anew: count(group, |r| r.periods > 1),
        parts,
        wait: wait_parts(group),
        median_ns: quantile(&latencies, 50),
        p99_ns: quantile(&latencies, 99),
        help: find_help(group, &split, parts.latency_ns, metadata),
        rest_ns: split.reference.map(|_| rest),
        reference_exit_us: split
            .reference
            .and_then(|state| declared_exit_us(state, metadata)),
        split,
        state_names,
        polling,
    }
}

fn count(group: &[&TracedRequest], test: fn(&TracedRequest) -> bool) -> u64 {
    group.iter().filter(|request| test(request)).count() as u64
}

/// The latency not exceeded by this share of all sorted latencies; 0 without any.
fn quantile(latencies: &[u64], percent: usize) -> u64 {
    let rank = (latencies.len() * percent).div_ceil(100).max(1) - 1;
    latencies.get(rank).copied().unwrap_or(0)
}

/// The lowest declared exit latency of a state in us, rounded up; `None` if it is unknown or 0.
fn declared_exit_us(state: u8, metadata: &Metadata) -> Option<u64> {
    let groups = metadata.idle_states.iter();
    let states = groups.filter_map(|group| group.states.get(usize::from(state)));
    let lowest = states
        .map(|state| state.exit_latency.0.div_ceil(1_000))
        .min();
    lowest.filter(|us| *us > 0)
}

/// State names where all CPUs agree, and the spinning states.
fn name_states(metadata: &Metadata) -> (BTreeMap<u8, String>, Vec<u8>) {
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
    /// Sum over all latencies, in ns.
    pub fn total_ns(&self) -> f64 {
        self.parts.latency_ns * self.requests as f64
    }

    /// Share among the kind's requests.
    pub fn share(&self, met: u64) -> f64 {
        met as f64 / self.requests.max(1) as f64
    }

    /// Estimated exit from the idle state met by a request, in ns; 0 for states without a cost.
    pub fn estimated_exit(&self, request: &TracedRequest) -> u64 {
        let MetState::State(met) = request.met else {
            return 0;
        };
        let mut states = self.split.states.iter();
        let cost = states.find(|state| state.state == met).and_then(|s| s.cost);
        let mean = cost.map_or(0.0, |cost| cost.mean_ns.max(0.0));
        (mean.round() as u64).min(request.out)
    }

    /// Some state met has no cost.
    pub fn has_unknown_exits(&self) -> bool {
        self.split.states.iter().any(|state| state.cost.is_none())
    }

    /// A state's name, or else index.
    pub fn state_name(&self, state: u8) -> String {
        let name = self.state_names.get(&state);
        name.cloned().unwrap_or_else(|| format!("state {state}"))
    }
}
