//! Kinds of requests, each with its parts.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::Metadata;

use crate::requests::{Coverage, MetState, TracedRequest};
use crate::split::{Split, split};

/// Means over the requests of a kind, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeanParts {
    /// Issue to completion: `out` and `interrupt`.
    pub latency_ns: f64,
    /// Issue to the CPU's first sign of life.
    pub out_ns: f64,
    /// From there to completion, where visible.
    pub interrupt_ns: f64,
    /// Completion to wake-up, over the requests that woke a task.
    pub hand_over_ns: f64,
    /// Wake-up to the end of the woken CPU's idle period, over the same requests.
    pub task_exit_ns: f64,
}

/// Requests of one device, direction and size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestKind {
    /// The kernel's name, or `major:minor`.
    pub device: String,
    /// They write or discard.
    pub write: bool,
    /// Smallest size of the class in bytes; the class goes up to twice that. 0: flushes.
    pub bytes: u32,
    /// How many.
    pub requests: u64,
    /// How many woke a task up.
    pub woke: u64,
    /// How many found the CPU running.
    pub awake: u64,
    /// How many came when something else had ended the idle period.
    pub leaving: u64,
    /// How many completed behind another one.
    pub behind: u64,
    /// How many lack events.
    pub unknown: u64,
    /// How many saw the governor choose again.
    pub chosen_anew: u64,
    /// Measured means.
    pub parts: MeanParts,
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
    /// Mean without the charged exits and the interrupt: the drive and the exit of the reference, in ns.
    pub rest_ns: Option<f64>,
}

/// All kinds of requests of a recording, those with most time first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What was used.
    pub coverage: Coverage,
    /// The kinds.
    pub kinds: Vec<RequestKind>,
}

/// Explains requests with the help of what the recording says of its machine.
pub fn explain(requests: &[TracedRequest], coverage: Coverage, metadata: &Metadata) -> Explanation {
    let mut groups: BTreeMap<(u32, bool, u32), Vec<&TracedRequest>> = BTreeMap::new();
    for request in requests {
        let class = request.bytes.checked_ilog2().map_or(0, |log| 1 << log);
        let key = (request.device, request.write, class);
        groups.entry(key).or_default().push(request);
    }
    let mut kinds: Vec<RequestKind> = groups
        .into_iter()
        .map(|((device, write, bytes), group)| {
            let device = device_name(device, metadata);
            explain_kind(device, write, bytes, &group, metadata)
        })
        .collect();
    kinds.sort_by(|a, b| {
        let time = |kind: &RequestKind| kind.parts.latency_ns * kind.requests as f64;
        time(b).total_cmp(&time(a))
    });
    Explanation { coverage, kinds }
}

fn explain_kind(
    device: String,
    write: bool,
    bytes: u32,
    group: &[&TracedRequest],
    metadata: &Metadata,
) -> RequestKind {
    let count = |test: fn(&TracedRequest) -> bool| group.iter().filter(|r| test(r)).count() as u64;
    let mean = |value: fn(&TracedRequest) -> u64, number: u64| {
        let sum: u128 = group.iter().map(|r| u128::from(value(r))).sum();
        sum as f64 / number.max(1) as f64
    };
    let requests = group.len() as u64;
    let woke = count(|r| r.hand_over.is_some());
    let parts = MeanParts {
        latency_ns: mean(|r| r.latency, requests),
        out_ns: mean(|r| r.out, requests),
        interrupt_ns: mean(|r| r.interrupt, requests),
        hand_over_ns: mean(|r| r.hand_over.unwrap_or(0), woke),
        task_exit_ns: mean(|r| r.task_exit, woke),
    };
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
    let rest = parts.latency_ns - parts.interrupt_ns - charged / requests.max(1) as f64;
    let (state_names, polling) = name_states(metadata);
    RequestKind {
        device,
        write,
        bytes,
        requests,
        woke,
        awake: count(|r| r.met == MetState::Awake),
        leaving: count(|r| r.met == MetState::Leaving),
        behind: count(|r| r.met == MetState::Behind),
        unknown: count(|r| r.met == MetState::Unknown),
        chosen_anew: count(|r| r.periods > 1),
        parts,
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
    /// The name of a state, or its index.
    pub fn state_name(&self, state: u8) -> String {
        let name = self.state_names.get(&state);
        name.cloned().unwrap_or_else(|| format!("state {state}"))
    }
}
