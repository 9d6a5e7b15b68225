//! The figures of each job of a file by itself.

use serde::Serialize;
use wakepath_workloads::Workload;

use crate::observe::attribution::LatencyBucket;
use crate::observe::latency::Latency;
use crate::observe::recorder::RequestCounts;

/// Figures of a job, all its processes together, as fio reports them without `group_reporting`.
#[derive(Clone, Debug, Serialize)]
pub struct JobRun {
    /// Name of the job in the file.
    pub name: String,
    /// Finished requests per second of the run.
    pub iops: f64,
    /// Number of finished reads.
    pub reads: u64,
    /// Number of finished writes.
    pub writes: u64,
    /// Bytes of the finished reads.
    pub read_bytes: u64,
    /// Bytes of the finished writes.
    pub written_bytes: u64,
    /// Bytes read and written per second of the run, in MB/s.
    pub bandwidth_mbs: f64,
    /// Latency from the system call's start to its return.
    pub latency_us: Latency,
    /// Requests by latency, shortest first, which JSON leaves out.
    #[serde(skip)]
    pub latency: Vec<LatencyBucket>,
}

impl JobRun {
    /// Figures of each job over so many seconds; empty unless the workload is a file of several fio jobs.
    pub(crate) fn list(workload: &Workload, counts: &[RequestCounts], seconds: f64) -> Vec<Self> {
        let Workload::Fio(file) = workload else {
            return Vec::new();
        };
        let per_second = |amount: u64| {
            if seconds > 0.0 {
                amount as f64 / seconds
            } else {
                0.0
            }
        };
        let jobs = file.jobs.iter().zip(counts).map(|(job, counts)| {
            let [reads, writes] = counts.requests();
            let [read_bytes, written_bytes] = counts.bytes();
            Self {
                name: job.name.clone(),
                iops: per_second(reads + writes),
                reads,
                writes,
                read_bytes,
                written_bytes,
                bandwidth_mbs: per_second(read_bytes + written_bytes) / 1e6,
                latency_us: counts.latency_summary(),
                latency: counts.latency_buckets().collect(),
            }
        });
        jobs.collect()
    }
}
