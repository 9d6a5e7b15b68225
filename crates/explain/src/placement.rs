//! CPUs that complete requests, and CPUs whose tasks wait for these.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::help::find_wake_from_other_cpu;
use crate::requests::TracedRequest;

/// CPUs with a smaller share of the requests are left out.
const LEAST_SHARE: f64 = 0.05;

/// CPUs of requests whose tasks were woken by another CPU. Lists ascend, lack CPUs of few requests, and are empty where no CPU is
/// known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskPlacement {
    /// CPUs that completed the requests.
    pub completing_cpus: Vec<u32>,
    /// CPUs that the tasks ran on.
    pub task_cpus: Vec<u32>,
}

impl TaskPlacement {
    pub(crate) fn from_requests(group: &[&TracedRequest]) -> Self {
        let woken = group
            .iter()
            .filter_map(|request| Some((request, find_wake_from_other_cpu(request)?)));
        // Of a request that another CPU completed only the interrupted CPU is known.
        let completed = woken
            .clone()
            .filter(|(request, _)| request.remote.is_none());
        Self {
            completing_cpus: keep_frequent_cpus(completed.map(|(request, _)| request.cpu)),
            task_cpus: keep_frequent_cpus(woken.filter_map(|(_, wake)| wake.cpu)),
        }
    }
}

/// Each CPU once, without those of few requests.
fn keep_frequent_cpus(cpus: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for cpu in cpus {
        *counts.entry(cpu).or_default() += 1;
    }
    let all: u64 = counts.values().sum();
    let least = LEAST_SHARE * all as f64;
    counts.retain(|_, count| *count as f64 >= least);
    counts.into_keys().collect()
}
