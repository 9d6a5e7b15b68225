//! Waits of tasks: who waited, and how long at most.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::Metadata;

use crate::requests::TracedRequest;

/// Share of the waits that a name must have to stand for all.
const MOST_WAITS: f64 = 0.9;

/// Waits for requests of a kind, from the bio, or else the issue, until the task ran again. Times in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskWaits {
    /// Name of the tasks that waited; `None` where no name has nine tenths of the waits, or tasks are not known.
    pub task: Option<String>,
    /// Median wait.
    pub median_ns: u64,
    /// 99th percentile of the wait.
    pub p99_ns: u64,
    /// 99th percentile of the time in the run queue.
    pub run_queue_p99_ns: u64,
}

impl TaskWaits {
    /// Summarizes waits; `None` if no task was seen to run again.
    pub(crate) fn from_requests(requests: &[&TracedRequest], metadata: &Metadata) -> Option<Self> {
        let mut waits: Vec<u64> = requests.iter().filter_map(|r| r.task_wait_ns()).collect();
        if waits.is_empty() {
            return None;
        }
        waits.sort_unstable();
        let wakes = requests.iter().filter_map(|request| request.wake);
        let ran = wakes.filter_map(|wake| Some((wake.task, wake.run_queue?)));
        let mut run_queue: Vec<u64> = Vec::with_capacity(waits.len());
        let mut tasks: BTreeMap<u32, usize> = BTreeMap::new();
        for (task, time) in ran {
            run_queue.push(time);
            if let Some(task) = task {
                *tasks.entry(task).or_default() += 1;
            }
        }
        run_queue.sort_unstable();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for (task, count) in tasks {
            *names.entry(task_name(task, metadata)).or_default() += count;
        }
        let frequent = names.into_iter().max_by_key(|(_, count)| *count);
        let least = MOST_WAITS * waits.len() as f64;
        Some(Self {
            task: frequent
                .filter(|(_, count)| *count as f64 >= least)
                .map(|(name, _)| name),
            median_ns: latency_at_percent(&waits, 50),
            p99_ns: latency_at_percent(&waits, 99),
            run_queue_p99_ns: latency_at_percent(&run_queue, 99),
        })
    }
}

/// Name of a task, or else `thread NUMBER`.
pub(crate) fn task_name(task: u32, metadata: &Metadata) -> String {
    let known = metadata.tasks.get(&task).cloned();
    known.unwrap_or_else(|| format!("thread {task}"))
}

/// The latency not exceeded by this share of all sorted latencies; 0 without any.
pub(crate) fn latency_at_percent(latencies: &[u64], percent: usize) -> u64 {
    let rank = (latencies.len() * percent).div_ceil(100).max(1) - 1;
    latencies.get(rank).copied().unwrap_or(0)
}
