//! Rates that jobs ask for, and what they come to.

use serde::Serialize;
use wakepath_workloads::Workload;
use wakepath_workloads::fio::{FioJob, Rate};

/// What a rate of a job came to, over all processes that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::task) struct RateSums {
    /// I/Os that it asked for, or bytes where block sizes vary.
    pub(in crate::task) asked: f64,
    /// Those that were issued.
    pub(in crate::task) issued: u64,
}

/// What the jobs of a run came to, besides their requests.
#[derive(Debug)]
pub(crate) struct JobTotals {
    /// Jobs that ended before they had done what they ask for, since nobody simulates them for longer.
    pub(in crate::task) cut: Vec<usize>,
    /// What the rates of each job came to, of its reads and of its writes.
    pub(in crate::task) rates: Vec<[RateSums; 2]>,
}

impl JobTotals {
    /// Nothing yet, of so many jobs.
    pub(crate) fn new(jobs: usize) -> Self {
        Self {
            cut: Vec::new(),
            rates: vec![[RateSums::default(); 2]; jobs],
        }
    }

    /// Jobs that ended before they had done what they ask for, in the order of the file.
    pub(crate) fn cut_jobs(&self) -> Vec<usize> {
        let mut cut = self.cut.clone();
        cut.sort_unstable();
        cut
    }

    /// The rates that the jobs of this workload ask for, and what was done.
    pub(crate) fn rates(&self, workload: &Workload) -> Vec<RateRun> {
        all(workload, &self.rates)
    }
}

/// A rate that a job asks for (fio's `rate` and `rate_iops`), and what was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateRun {
    /// Which job of the file, from 0.
    pub job: usize,
    /// `read` or `write`.
    pub direction: &'static str,
    /// `1/s`: I/Os per second; `B/s`: bytes per second.
    pub unit: &'static str,
    /// The rate of all processes of the job together.
    pub asked: f64,
    /// What they did while they ran, capped at `asked`. Each process counts from its own start.
    pub done: f64,
}

impl RateRun {
    /// The share of the rate that was done, 0 to 1.
    pub fn share(&self) -> f64 {
        self.done / self.asked
    }
}

/// The rates of a workload; `sums` has those of reads and of writes of each job.
fn all(workload: &Workload, sums: &[[RateSums; 2]]) -> Vec<RateRun> {
    let Workload::Fio(file) = workload else {
        return Vec::new();
    };
    let of_job = |(job, (of, sums)): (usize, (&FioJob, &[RateSums; 2]))| {
        let rates = of.rates();
        let each = [("read", rates.read), ("write", rates.write)];
        let processes = f64::from(of.numjobs);
        let of_direction = move |((direction, rate), sums): ((&'static str, _), RateSums)| {
            let (unit, rate) = match rate? {
                Rate::Bytes(bytes) => ("B/s", bytes),
                Rate::Ios(ios) => ("1/s", ios),
            };
            let asked = rate as f64 * processes;
            // Of a job that ran for less than one of its I/Os nothing can be said.
            let share = (sums.asked >= 1.0).then(|| sums.issued as f64 / sums.asked)?;
            Some(RateRun {
                job,
                direction,
                unit,
                asked,
                done: asked * share.min(1.0),
            })
        };
        each.into_iter().zip(*sums).filter_map(of_direction)
    };
    let jobs = file.jobs.iter().zip(sums).enumerate();
    jobs.flat_map(of_job).collect()
}
