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
    /// The runs that a condition is about: those of the load, or of the job that it names. `None`: there is no such job.
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
    /// Requests of each run by latency; empty where latencies are not known.
    pub latency: Vec<Vec<LatencyCount>>,
    /// Name and runs of each job by itself; empty for a single job, and where jobs are not told apart.
    pub jobs: Vec<(String, LoadRuns)>,
}

impl LoadRuns {
    /// A metric's value in every run; `None` without runs, or if a run lacks the metric.
    pub fn metric_of_each_run(&self, metric: &str) -> Option<Vec<f64>> {
        if self.runs.is_empty() {
            return None;
        }
        let values = self.runs.iter().map(|run| {
            let (_, value) = run.iter().find(|(name, _)| name == metric)?;
            Some(*value)
        });
        values.collect()
    }
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

    /// Where the runs come from.
    fn origin(&self) -> AnswerOrigin {
        AnswerOrigin::Simulation
    }
}
