//! The answer of a search for policy sets.

use serde::Serialize;
use wakepath_compare::Gain;

/// Name of the unchanged policies among the sets of an answer, and in studies.
pub const UNCHANGED: &str = "unchanged";

/// Where the figures of an answer come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrigin {
    /// Simulated runs of a workload, each with a seed.
    Simulation,
    /// Recorded I/O on a modelled drive; blocks of time stand for seeds.
    Recording,
    /// Recorded idle periods under other governors; blocks of time stand for seeds.
    RecordedIdle,
    /// Runs on a real machine, those of all sets interleaved.
    Measurement,
}

/// A predicted figure beside the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedFigure {
    /// The policy set; `unchanged` for what is in force.
    pub set: String,
    /// Name of the load.
    pub load: String,
    /// Name of the metric. Power is not among them: what is modelled and what is measured cover different parts of a machine.
    pub metric: String,
    /// Mean of the simulated runs.
    pub predicted: f64,
    /// Mean of the measured runs.
    pub measured: f64,
    /// Predicted over measured, less 1, in percent; `None` where 0 was measured.
    pub error_percent: Option<f64>,
}

/// The answer of a search for policy sets.
#[derive(Clone, Debug, Serialize)]
pub struct SearchAnswer {
    /// Where all figures of the answer come from.
    pub origin: AnswerOrigin,
    /// Name of the metric that decides.
    pub objective: String,
    /// Unit of the metric that decides.
    pub unit: String,
    /// Figures of unchanged policies, on the finalists' fresh seeds.
    pub in_force: Finalist,
    /// The best policy set; `None` where no finalist keeps every condition.
    pub best: Option<Finalist>,
    /// The other finalists, the best first. If there is no best set, the nearest to the conditions first.
    pub next: Vec<Finalist>,
    /// What each policy of the best set contributes.
    pub contributions: Vec<Contribution>,
    /// Number of policy sets to choose from.
    pub space: usize,
    /// Number of policy sets that were tried.
    pub tried: usize,
    /// Whether every policy set was tried.
    pub is_exhaustive: bool,
    /// The budget in simulated or replayed requests; of recorded idle periods in events.
    pub budget: u64,
    /// Number of requests that were simulated or replayed; of recorded idle periods number of events.
    pub simulated: u64,
    /// The seed.
    pub seed: u64,
    /// Seed of the first run behind each finalist's figures; each further run has the next one. 0 for figures without seeds.
    pub first_seed_of_decision: u64,
    /// Number of fresh runs behind each finalist's figures; of recordings the number of blocks of time.
    pub repeats: u32,
    /// Confidence level of each finalist's intervals, corrected for the number of finalists.
    pub level: f64,
    /// Mechanisms that the user named but that cannot be simulated.
    pub left_out: Vec<String>,
    /// Remarks for the user beside the figures.
    pub notes: Vec<String>,
}

/// A policy set with its figures on fresh seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Finalist {
    /// The policy set as `apply` takes it; `unchanged` for what is in force.
    pub set: String,
    /// Number of mechanisms that the set changes.
    pub changes: usize,
    /// The objective's mean.
    pub objective: f64,
    /// The confidence interval around the objective's mean.
    pub interval: Option<[f64; 2]>,
    /// The objective's gain over unchanged policies; `None` for the unchanged policies.
    pub gain: Option<Gain>,
    /// Figures of the set for each load.
    pub loads: Vec<LoadFigures>,
    /// Each condition with each load that it concerns.
    pub conditions: Vec<KeptCondition>,
}

impl Finalist {
    /// Whether the set changes nothing of what is in force.
    pub fn changes_nothing(&self) -> bool {
        self.changes == 0
    }

    /// Mean of a metric under a load; `None` if the load has no such metric.
    pub fn metric_of_load(&self, load: &str, metric: &str) -> Option<f64> {
        let figures = self.loads.iter().find(|figures| figures.load == load)?;
        let found = figures.metrics.iter().find(|(name, _)| name == metric)?;
        Some(found.1)
    }

    /// Whether the means of the set's metrics keep every condition.
    pub fn keeps_conditions_by_means(&self) -> bool {
        self.conditions.iter().all(|kept| kept.is_kept)
    }

    /// Whether the whole confidence intervals keep every condition.
    pub fn keeps_conditions_by_whole_intervals(&self) -> bool {
        self.conditions.iter().all(|kept| kept.is_sure)
    }
}

/// A policy set's figures for one load.
#[derive(Clone, Debug, Serialize)]
pub struct LoadFigures {
    /// Name of the load.
    pub load: String,
    /// Means of the metrics over fresh seeds, by name.
    pub metrics: Vec<(String, f64)>,
}

/// How well a policy set keeps a condition on a load.
#[derive(Clone, Debug, Serialize)]
pub struct KeptCondition {
    /// The condition, as the user wrote it.
    pub condition: String,
    /// Whether the search added the condition, because the load asks for no rate.
    pub is_implied: bool,
    /// Name of the load.
    pub load: String,
    /// The metric's mean.
    pub value: f64,
    /// The confidence interval around the metric's mean.
    pub interval: Option<[f64; 2]>,
    /// The limit in the metric's unit.
    pub limit: f64,
    /// Distance within the limit in percent of the limit; negative: the condition is broken.
    pub margin_percent: f64,
    /// Whether the mean keeps the condition.
    pub is_kept: bool,
    /// Whether the whole confidence interval keeps the condition.
    pub is_sure: bool,
}

/// What a policy contributes to a set: the set's figures without the policy.
#[derive(Clone, Debug, Serialize)]
pub struct Contribution {
    /// The policy.
    pub part: String,
    /// The objective without the policy.
    pub objective_without: f64,
    /// Conditions that the set breaks without the policy.
    pub broken_without: Vec<String>,
}
