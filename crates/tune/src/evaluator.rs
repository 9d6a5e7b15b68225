//! The runs that a search asks for.

use wakepath_policies::PolicySet;
use wakepath_results::{LatencyCount, LoadCondition};

use crate::TuneError;
use crate::answer::AnswerOrigin;

/// Which runs a search asks for, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effort {
    /// Seed of the first repeat; each further repeat has the next seed.
    pub first_seed: u64,
    /// Number of runs of each load.
    pub repeats: u32,
    /// Each load's measured time is divided by this; the warm-up is never cut.
    pub shortened: u32,
}

/// Distance between the first seeds of two stages.
const SEED_STEP: u64 = 1_000_003;

impl Effort {
    /// An effort of a search that starts with `seed`, with seeds that belong to a stage only.
    pub(crate) fn with_stage_seeds(seed: u64, stage: u64, repeats: u32, shortened: u32) -> Self {
        Self {
            first_seed: seed.wrapping_add(stage.wrapping_mul(SEED_STEP)),
            repeats,
            shortened,
        }
    }
}

/// What the runs of a policy set gave.
#[derive(Clone, Debug)]
pub enum TrialOutcome {
    /// The set ran.
    Ran(Trial),
    /// The policy set cannot be run on this machine, for this reason.
    Refused(String),
}

/// Figures of a policy set in every load.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Runs of each load, in the loads' order.
    pub loads: Vec<LoadRuns>,
    /// Runs of the machine at rest; empty where the loads fill the day.
    pub rest: LoadRuns,
    /// Number of requests simulated, warm-up included; loops where a load has no requests. At least 1 per run.
    pub requests: u64,
}

impl Trial {
    /// The condition's runs: the load's, or the named job's. `None`: no such job.
    pub(crate) fn runs_of_condition(
        &self,
        condition: &LoadCondition,
        load_index: usize,
        load_name: &str,
    ) -> Option<&LoadRuns> {
        let runs = self.loads.get(load_index)?;
        let Some(wanted) = condition.job_of_load(load_name) else {
            return Some(runs);
        };
        let found = runs.jobs.iter().find(|(name, _)| name == wanted);
        found.map(|(_, runs)| runs)
    }

    /// Whether another trial has the same metrics in every run, to the bit.
    pub(crate) fn has_same_metrics(&self, other: &Self) -> bool {
        let loads = self.loads.iter().zip(&other.loads);
        let mut pairs = loads.chain([(&self.rest, &other.rest)]);
        pairs.all(|(own, other)| own.runs == other.runs)
    }

    /// A metric of a load in every seed; `None` if a run lacks the metric.
    pub fn metric_in_each_seed(&self, load_index: usize, metric: &str) -> Option<Vec<f64>> {
        self.loads.get(load_index)?.metric_of_each_run(metric)
    }
}

/// Metrics of each run of a load, in seed order.
#[derive(Clone, Debug, Default)]
pub struct LoadRuns {
    /// Names and values of the metrics of each run.
    pub runs: Vec<Vec<(String, f64)>>,
    /// Requests by latency in each run; empty: latencies are not known.
    pub latency: Vec<Vec<LatencyCount>>,
    /// Each job's name and runs; empty for a single job, or if jobs are not told apart.
    pub jobs: Vec<(String, LoadRuns)>,
}

/// Waits of requests for a drive that wakes up. A run without a wake-up has no such metric.
const WAITS_FOR_DRIVE: [&str; 4] = [
    "drive_wake_mean_us",
    "drive_wake_p50_us",
    "drive_wake_p99_us",
    "drive_wake_max_us",
];

/// Whether a metric is a wait for a drive that wakes up.
pub(crate) fn is_wait_for_drive(metric: &str) -> bool {
    WAITS_FOR_DRIVE.contains(&metric)
}

impl LoadRuns {
    /// A metric's value in every run; `None` without runs, or if a run lacks the metric. Where no request woke the drive, none
    /// waited for it: waits are 0 then, and keep every upper limit.
    pub fn metric_of_each_run(&self, metric: &str) -> Option<Vec<f64>> {
        if self.runs.is_empty() {
            return None;
        }
        let values = self.runs.iter().map(|run| {
            let no_wait = is_wait_for_drive(metric) && has_no_wake_up_of_drive(run);
            metric_of_run(run, metric).or(no_wait.then_some(0.0))
        });
        values.collect()
    }

    /// Whether no run has a wake-up of the drive; false without drives that sleep.
    pub(crate) fn have_no_wake_up_of_drive(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|run| has_no_wake_up_of_drive(run))
    }
}

fn metric_of_run(run: &[(String, f64)], metric: &str) -> Option<f64> {
    let (_, value) = run.iter().find(|(name, _)| name == metric)?;
    Some(*value)
}

fn has_no_wake_up_of_drive(run: &[(String, f64)]) -> bool {
    metric_of_run(run, "drive_wake_ups_per_s") == Some(0.0)
}

/// What makes runs of policy sets: the simulator, or a machine.
pub trait Evaluator: Sync {
    /// Runs policy sets, and returns an outcome for each in order.
    ///
    /// # Errors
    /// Called off by the user.
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError>;

    /// Number of requests in each trial of recordings, which are replayed whole, whatever the effort. `None`: the effort sets
    /// the length of trials.
    fn requests_of_replay(&self) -> Option<u64> {
        None
    }

    /// Where the runs come from.
    fn origin(&self) -> AnswerOrigin {
        AnswerOrigin::Simulation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(metrics: &[(&str, f64)]) -> Vec<(String, f64)> {
        let metrics = metrics.iter();
        metrics
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    }

    #[test]
    fn a_drive_that_never_wakes_makes_nobody_wait() {
        let awake = run(&[("drive_wake_ups_per_s", 0.0)]);
        let slept = run(&[("drive_wake_ups_per_s", 2.0), ("drive_wake_p99_us", 900.0)]);
        let mixed = LoadRuns {
            runs: vec![awake.clone(), slept],
            ..LoadRuns::default()
        };
        let p99 = mixed.metric_of_each_run("drive_wake_p99_us");
        assert_eq!(p99, Some(vec![0.0, 900.0]));
        assert!(!mixed.have_no_wake_up_of_drive());
        let never = LoadRuns {
            runs: vec![awake],
            ..LoadRuns::default()
        };
        assert!(never.have_no_wake_up_of_drive());
        assert_eq!(never.metric_of_each_run("p99_us"), None);
        // Without a drive that can sleep, nothing is known about waits.
        let none = LoadRuns {
            runs: vec![run(&[("p99_us", 80.0)])],
            ..LoadRuns::default()
        };
        assert_eq!(none.metric_of_each_run("drive_wake_p99_us"), None);
        assert!(!none.have_no_wake_up_of_drive());
    }
}
