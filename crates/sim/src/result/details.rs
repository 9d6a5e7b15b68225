//! What a run leaves besides its figures, for files of results: distributions, and idle states by cluster.

use wakepath_hardware::Machine;

pub use crate::cpu::result::{ClusterDetails, FitDetails, StateDetails};
use crate::engine::Finished;
use crate::observe::attribution::LatencyBucket;

/// Distributions of a run's latencies and idle periods.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Requests by latency, shortest first. A bucket is at most 3 % wide.
    pub latency: Vec<LatencyBucket>,
    /// Idle states of each cluster of the machine.
    pub clusters: Vec<ClusterDetails>,
}

impl Details {
    pub(crate) fn new(machine: &Machine, finished: &Finished) -> Self {
        let mut first = 0;
        let clusters = machine.cluster.iter().map(|cluster| {
            let cpus = &finished.cpus[first..first + cluster.cpus];
            first += cluster.cpus;
            let khz: Vec<u32> = cluster.opps.iter().map(|o| o.khz).collect();
            ClusterDetails::new(cpus, machine.idle_state.len(), &khz)
        });
        Self {
            clusters: clusters.collect(),
            latency: finished.recorder.latency_buckets().collect(),
        }
    }
}
