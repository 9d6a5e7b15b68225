//! Kinds of requests, each with its parts.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::Metadata;

use crate::lateness::TimerLateness;
use crate::probes::ProbeCost;
use crate::queueing::QueuedParts;
use crate::requests::{Collected, Coverage, MetState, Notification, Sibling, TracedRequest};
use crate::split::{Split, split};

/// Means over the requests of a kind, in ns. `out`, `interrupt`, `remote_exit` and `remote` add up to the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeanParts {
    /// Issue to completion.
    pub latency_ns: f64,
    /// Issue to the interrupted CPU's first sign of life.
    pub out_ns: f64,
    /// From there to completion, or until another CPU is told to complete, where visible.
    pub interrupt_ns: f64,
    /// From there until the completing CPU has left its idle state.
    pub remote_exit_ns: f64,
    /// From there to completion on that CPU.
    pub remote_ns: f64,
    /// Before the issue: waiting for a tag, over the requests whose bio is known.
    pub tag_ns: f64,
    /// Plugged, over the same requests.
    pub plug_ns: f64,
    /// In the scheduler, over the same requests.
    pub scheduler_ns: f64,
    /// Completion to wake-up, over the requests that woke a task.
    pub hand_over_ns: f64,
    /// Wake-up to the end of the woken CPU's idle period, over the same requests.
    pub task_exit_ns: f64,
}

/// Means over the requests whose task was seen to run again, in ns. All parts add up to the wait.
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
    /// First wake-up to the wake-up of the task that waited: through other threads.
    pub through_ns: f64,
    /// From there to the end of the idle period of the task's CPU.
    pub task_exit_ns: f64,
    /// From there until the task ran.
    pub run_queue_ns: f64,
    /// Tasks that another CPU woke by IPI.
    pub by_ipi: u64,
    /// Tasks that another CPU woke by a store.
    pub by_store: u64,
}

/// Requests of one device, direction and size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestKind {
    /// The kernel's name, or `major:minor`.
    pub device: String,
    /// They write or discard.
    pub write: bool,
    /// Nobody waits for them: readahead or write-back.
    pub background: bool,
    /// Smallest size of the class in bytes; the class goes up to twice that. 0: flushes.
    pub bytes: u32,
    /// How many.
    pub requests: u64,
    /// How many have a known time before their issue.
    pub queued: u64,
    /// How many woke a task up.
    pub woke: u64,
    /// How many were completed by another CPU than the interrupted one.
    pub remote: u64,
    /// How many found the CPU running.
    pub awake: u64,
    /// How many came when something else had ended the idle period.
    pub leaving: u64,
    /// How many completed behind another one.
    pub behind: u64,
    /// How many lack events.
    pub unknown: u64,
    /// How many found their core kept awake by an SMT sibling.
    pub sibling_ran: u64,
    /// How many saw the governor choose again.
    pub chosen_anew: u64,
    /// Measured means.
    pub parts: MeanParts,
    /// The waits of tasks; `None` where no task was seen to run again.
    pub wait: Option<WaitParts>,
    /// Latency that half of the requests do not exceed, in ns.
    pub median_ns: u64,
    /// Latency that 99 % of the requests do not exceed, in ns.
    pub p99_ns: u64,
    /// What the exits cost.
    pub split: Split,
    /// Names of the states, by index.
    pub state_names: BTreeMap<u8, String>,
    /// States that spin, which fix the zero: their exit takes next to no time.
    pub polling: Vec<u8>,
    /// Mean without the charged exits, the interrupt and what another CPU did: the drive and the exit of the reference, in ns.
    pub rest_ns: Option<f64>,
}

/// Requests of one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessParts {
    /// The name of the thread that submitted them.
    pub name: String,
    /// How many.
    pub requests: u64,
    /// Mean of issue to completion, in ns.
    pub latency_ns: f64,
    /// The waits of tasks; `None` where no task was seen to run again.
    pub wait: Option<WaitParts>,
}

/// Requests whose interrupt one CPU took.
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
    /// Mean from there to completion, or until another CPU is told, in ns.
    pub interrupt_ns: f64,
}

/// A thread between completions and the tasks that waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HopParts {
    /// The thread's name.
    pub name: String,
    /// How many requests went through.
    pub requests: u64,
    /// Mean from its wake-up until it ran, in ns.
    pub waited_ns: f64,
    /// Mean from there until it woke the next task, in ns.
    pub ran_ns: f64,
}

/// All kinds of requests of a recording, those with most time first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What was used.
    pub coverage: Coverage,
    /// The kinds.
    pub kinds: Vec<RequestKind>,
    /// By process, those with most requests first; empty where submitters are not known.
    pub processes: Vec<ProcessParts>,
    /// By interrupt and CPU, those with most requests first.
    pub interrupts: Vec<InterruptParts>,
    /// Threads that passed requests on to the tasks that waited, by name.
    pub hops: Vec<HopParts>,
    /// Lateness of timers by state, a second estimate of exits; empty where deadlines are not known.
    pub timers: Vec<TimerLateness>,
    /// What the probes added, where that was measured: live.
    pub probes: Option<ProbeCost>,
}

/// What requests of a kind share.
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

/// Explains requests with the help of the recording's description of its machine.
pub fn explain(collected: &Collected, metadata: &Metadata) -> Explanation {
    summarize(&explain_kinds(collected, metadata), collected, metadata)
}

/// A kind of requests, with its requests in the order of their completions.
#[derive(Clone, Debug, PartialEq)]
pub struct KindGroup<'a> {
    /// The kind.
    pub kind: RequestKind,
    /// The requests.
    pub requests: Vec<&'a TracedRequest>,
}

/// Explains each kind of requests; the kind with most time is first.
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

/// Hops by the name of the thread, those with most requests first.
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

/// The mean of a time over requests; 0 without any.
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

/// Means over the requests whose task was seen to run again.
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

/// Requests in groups, the largest first; of equal size, by key.
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
    let count = |test: fn(&TracedRequest) -> bool| group.iter().filter(|r| test(r)).count() as u64;
    let requests = group.len() as u64;
    let queued = keep(group, |r| r.queued.is_some());
    let woke = keep(group, |r| r.wake.is_some());
    let parts = mean_parts(group, &queued, &woke);
    let mut latencies: Vec<u64> = group.iter().map(|r| r.latency).collect();
    latencies.sort_unstable();
    let quantile = |percent: usize| {
        let rank = (latencies.len() * percent).div_ceil(100).max(1) - 1;
        latencies.get(rank).copied().unwrap_or(0)
    };
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
        device: device_name(key.device, metadata),
        write: key.write,
        background: key.background,
        bytes: key.bytes,
        requests,
        queued: queued.len() as u64,
        woke: woke.len() as u64,
        remote: count(|r| r.remote.is_some()),
        awake: count(|r| r.met == MetState::Awake),
        leaving: count(|r| r.met == MetState::Leaving),
        behind: count(|r| r.met == MetState::Behind),
        sibling_ran: count(|r| r.sibling == Sibling::Running),
        unknown: count(|r| r.met == MetState::Unknown),
        chosen_anew: count(|r| r.periods > 1),
        parts,
        wait: wait_parts(group),
        median_ns: quantile(50),
        p99_ns: quantile(99),
        rest_ns: split.reference.map(|_| rest),
        split,
        state_names,
        polling,
    }
}

fn device_name(device: u32, metadata: &Metadata) -> String {
    let known = metadata.devices.iter().find(|d| d.device == device);
    known.map_or_else(
        || format!("{}:{}", device >> 20, device & 0xf_ffff),
        |known| known.name.clone(),
    )
}

/// The states' names where all CPUs agree, and which of them spin.
fn name_states(metadata: &Metadata) -> (BTreeMap<u8, String>, Vec<u8>) {
    let [group] = &metadata.idle_states[..] else {
        return (BTreeMap::new(), Vec::new());
    };
    let numbered = || (0..=u8::MAX).zip(&group.states);
    let names = numbered().map(|(index, state)| (index, state.name.clone()));
    let polling = numbered().filter(|(_, state)| state.polling);
    (names.collect(), polling.map(|(index, _)| index).collect())
}

impl RequestKind {
    /// Latencies of all requests together, in ns.
    pub fn total_ns(&self) -> f64 {
        self.parts.latency_ns * self.requests as f64
    }

    /// Share of the requests that met a state.
    pub fn share(&self, met: u64) -> f64 {
        met as f64 / self.requests.max(1) as f64
    }

    /// Estimated exit from the idle state that a request met, in ns; 0 where that has no cost.
    pub fn estimated_exit(&self, request: &TracedRequest) -> u64 {
        let MetState::State(met) = request.met else {
            return 0;
        };
        let mut states = self.split.states.iter();
        let cost = states.find(|state| state.state == met).and_then(|s| s.cost);
        let mean = cost.map_or(0.0, |cost| cost.mean_ns.max(0.0));
        (mean.round() as u64).min(request.out)
    }

    /// Some state that requests met has no cost.
    pub fn has_unknown_exits(&self) -> bool {
        self.split.states.iter().any(|state| state.cost.is_none())
    }

    /// The name of a state, or its index.
    pub fn state_name(&self, state: u8) -> String {
        let name = self.state_names.get(&state);
        name.cloned().unwrap_or_else(|| format!("state {state}"))
    }
}
