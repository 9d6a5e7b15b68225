//! What a search found.

use serde::Serialize;
use wakepath_compare::Gain;

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Name of the metric that decides.
    pub objective: String,
    /// Unit of that metric.
    pub unit: String,
    /// What is in force, on the same fresh seeds as the finalists.
    pub in_force: Finalist,
    /// The best set; `None` where no finalist keeps every condition.
    pub best: Option<Finalist>,
    /// The other finalists: the best first. Without an answer, the nearest first.
    pub next: Vec<Finalist>,
    /// What each part of the best set contributes.
    pub contributions: Vec<Contribution>,
    /// How many sets there are to choose from.
    pub space: usize,
    /// How many sets were tried.
    pub tried: usize,
    /// Every set was tried.
    pub is_exhaustive: bool,
    /// The budget in simulated requests.
    pub budget: u64,
    /// Requests that were simulated.
    pub simulated: u64,
    /// The seed.
    pub seed: u64,
    /// Fresh runs behind each finalist's figures.
    pub repeats: u32,
    /// Confidence level of each finalist's intervals, corrected for the number of finalists.
    pub level: f64,
    /// What was asked for and cannot be simulated here.
    pub left_out: Vec<String>,
    /// What a reader should know beside the figures.
    pub notes: Vec<String>,
}

/// A set on fresh seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Finalist {
    /// The set as `apply` takes it; `unchanged` for what is in force.
    pub set: String,
    /// Parts that differ from what is in force.
    pub changes: usize,
    /// The objective's mean.
    pub objective: f64,
    /// The interval around the objective's mean.
    pub interval: Option<[f64; 2]>,
    /// The gain of the objective over what is in force; `None` for what is in force.
    pub gain: Option<Gain>,
    /// Figures of each load.
    pub loads: Vec<LoadFigures>,
    /// Each condition on each load that it is about.
    pub conditions: Vec<KeptCondition>,
}

impl Finalist {
    /// Whether nothing differs from what is in force.
    pub fn is_in_force(&self) -> bool {
        self.changes == 0
    }

    /// Whether the means keep every condition.
    pub fn keeps_conditions(&self) -> bool {
        self.conditions.iter().all(|kept| kept.is_kept)
    }

    /// Whether the whole interval keeps every condition.
    pub fn surely_keeps_conditions(&self) -> bool {
        self.conditions.iter().all(|kept| kept.is_sure)
    }
}

/// Figures of a load.
#[derive(Clone, Debug, Serialize)]
pub struct LoadFigures {
    /// Name of the load.
    pub load: String,
    /// Metrics by name: the means over fresh seeds.
    pub metrics: Vec<(String, f64)>,
}

/// A condition on a load.
#[derive(Clone, Debug, Serialize)]
pub struct KeptCondition {
    /// The condition, as written.
    pub condition: String,
    /// The search added it: the load asks for no rate.
    pub is_implied: bool,
    /// Name of the load.
    pub load: String,
    /// The metric's mean.
    pub value: f64,
    /// The interval around the mean.
    pub interval: Option<[f64; 2]>,
    /// The limit in the metric's unit.
    pub limit: f64,
    /// Distance within the limit in percent of the limit; negative: broken.
    pub margin_percent: f64,
    /// The mean keeps the condition.
    pub is_kept: bool,
    /// The whole interval keeps the condition.
    pub is_sure: bool,
}

/// What a part of the best set contributes: the set without it.
#[derive(Clone, Debug, Serialize)]
pub struct Contribution {
    /// The policy.
    pub part: String,
    /// The objective without the policy.
    pub objective_without: f64,
    /// Conditions that the set breaks without the policy.
    pub broken_without: Vec<String>,
}
