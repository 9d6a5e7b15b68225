//! Rates that jobs request, and the rates achieved.

use serde::Serialize;
use wakepath_workloads::Workload;
use wakepath_workloads::fio::Rate;

use crate::task::fio::replay::{ReplayRun, ReplayTotals};
use crate::task::server::result::ServerRun;

/// Sums for a job's rate in one direction, over all ended processes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::task) struct RateSums {
    /// I/Os that the rate asked for, or bytes where block sizes vary.
    pub(in crate::task) asked: f64,
    /// I/Os issued, or bytes where block sizes vary.
    pub(in crate::task) issued: u64,
}

/// Totals of fio jobs besides those of requests.
#[derive(Debug)]
pub(crate) struct JobTotals {
    /// Indices of jobs that the longest simulated time cut off, with more to do.
    pub(in crate::task) cut: Vec<usize>,
    /// Rate sums by job, for reads and for writes.
    pub(in crate::task) rates: Vec<[RateSums; 2]>,
    /// Depth of each process that has searched for it.
    pub(in crate::task) depths: Vec<FoundDepth>,
    /// Index of the job and lateness, for each process that has replayed a block trace.
    pub(in crate::task) replays: Vec<(usize, ReplayTotals)>,
}

/// A depth that a job's `latency_target` has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FoundDepth {
    /// Job number in the file, from 0.
    pub job: usize,
    /// Requests in flight at most when a process of the job ended, 1 to its `iodepth`.
    pub depth: u32,
    /// Whether no depth kept to the target, not even 1.
    pub misses_target: bool,
}

impl JobTotals {
    /// No totals yet, for `jobs` jobs.
    pub(crate) fn new(jobs: usize) -> Self {
        Self {
            cut: Vec::new(),
            rates: vec![[RateSums::default(); 2]; jobs],
            depths: Vec::new(),
            replays: Vec::new(),
        }
    }

    /// Indices of jobs that were cut off with more to do, in file order.
    pub(crate) fn cut_jobs(&self) -> Vec<usize> {
        let mut cut = self.cut.clone();
        cut.sort_unstable();
        cut
    }

    /// Depths that searches have led to, one for each process, in file order.
    pub(crate) fn found_depths(&self) -> Vec<FoundDepth> {
        let mut found = self.depths.clone();
        found.sort_unstable();
        found
    }

    /// How well replays kept the times of their traces, in file order.
    pub(crate) fn replay_runs(&self) -> Vec<ReplayRun> {
        let replays = self.replays.iter();
        let mut runs: Vec<ReplayRun> = replays
            .filter_map(|(job, totals)| totals.describe(*job))
            .collect();
        runs.sort_by_key(|run| run.job);
        runs
    }

    /// The workload's requested and achieved rates.
    pub(crate) fn rate_runs(&self, workload: &Workload) -> Vec<RateRun> {
        let mut runs = rate_runs_of_workload(workload, &self.rates);
        runs.extend(self.replay_runs().iter().map(RateRun::for_replay));
        runs
    }
}

/// A rate requested by a job (fio's `rate` and `rate_iops`) or at a server, and the rate achieved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateRun {
    /// Job number in the file, from 0.
    pub job: usize,
    /// `read`, `write`, or `request` of a server, or of a block trace, whose rate is the trace's.
    pub direction: &'static str,
    /// `1/s`: I/Os per second; `B/s`: bytes per second.
    pub unit: &'static str,
    /// Rate requested by all the job's processes together.
    pub asked: f64,
    /// Rate achieved while processes ran, capped at `asked`. Each process counts from its own start.
    pub done: f64,
}

impl RateRun {
    /// A job's requested and achieved rate in one direction; `None` if the job asks for none, or ran too shortly.
    fn new(
        (job, direction): (usize, &'static str),
        rate: Option<Rate>,
        processes: f64,
        sums: &RateSums,
    ) -> Option<Self> {
        let (unit, each) = match rate? {
            Rate::Bytes(bytes) => ("B/s", bytes),
            Rate::Ios(ios) => ("1/s", ios),
        };
        // A job shorter than one I/O has no meaningful rate.
        let share = (sums.asked >= 1.0).then(|| sums.issued as f64 / sums.asked)?;
        let asked = each as f64 * processes;
        Some(Self {
            job,
            direction,
            unit,
            asked,
            done: asked * share.min(1.0),
        })
    }

    /// The rate of a trace, and of its replay.
    fn for_replay(run: &ReplayRun) -> Self {
        Self {
            job: run.job,
            direction: "request",
            unit: "1/s",
            asked: run.asked_per_s,
            done: run.done_per_s.min(run.asked_per_s),
        }
    }

    /// The rate of a server's arrivals and the rate of its replies; `None` with clients, who wait.
    pub(crate) fn for_server(server: &ServerRun) -> Option<Self> {
        (server.is_open && server.arrived_per_second > 0.0).then(|| Self {
            job: 0,
            direction: "request",
            unit: "1/s",
            asked: server.arrived_per_second,
            done: server.arrived_per_second * server.kept_up_share(),
        })
    }

    /// Achieved share of the rate, 0 to 1.
    pub fn achieved_share(&self) -> f64 {
        self.done / self.asked
    }
}

/// Requested and achieved rates of all jobs; `sums` has reads and writes by job.
fn rate_runs_of_workload(workload: &Workload, sums: &[[RateSums; 2]]) -> Vec<RateRun> {
    let Workload::Fio(file) = workload else {
        return Vec::new();
    };
    let mut runs = Vec::new();
    for (number, (job, [reads, writes])) in file.jobs.iter().zip(sums).enumerate() {
        let rates = job.requested_rates();
        let processes = f64::from(job.numjobs);
        runs.extend(RateRun::new((number, "read"), rates.read, processes, reads));
        runs.extend(RateRun::new(
            (number, "write"),
            rates.write,
            processes,
            writes,
        ));
    }
    runs
}
