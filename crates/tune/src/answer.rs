//! The result of a search.

use serde::Serialize;
use wakepath_compare::Gain;

/// The result of a search.
#[derive(Clone, Debug, Serialize)]
pub struct SearchAnswer {
    /// The deciding metric's name.
    pub objective: String,
    /// The deciding metric's unit.
    pub unit: String,
    /// Unchanged policies, on the finalists' fresh seeds.
    pub in_force: Finalist,
    /// The best set; `None` where no finalist keeps every condition.
    pub best: Option<Finalist>,
    /// The other finalists: the best first. Without an answer, the nearest first.
    pub next: Vec<Finalist>,
    /// Each part's contribution to the best set.
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
    /// Mechanisms named but not simulated.
    pub left_out: Vec<String>,
    /// Remarks beside the figures.
    pub notes: Vec<String>,
}

/// A set on fresh seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Finalist {
    /// The set as `apply` takes it; `unchanged` for what is in force.
    pub set: String,
    /// Number of parts changed.
    pub changes: usize,
    /// The objective's mean.
    pub objective: f64,
    /// The interval around the objective's mean.
    pub interval: Option<[f64; 2]>,
    /// The objective's gain over unchanged policies; `None` for the unchanged policies.
    pub gain: Option<Gain>,
    /// Figures of each load.
    pub loads: Vec<LoadFigures>,
    /// Each condition with each load concerned.
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

/// A part's contribution: figures without the part.
#[derive(Clone, Debug, Serialize)]
pub struct Contribution {
    /// The policy.
    pub part: String,
    /// The objective without the policy.
    pub objective_without: f64,
    /// Conditions that the set breaks without the policy.
    pub broken_without: Vec<String>,
}
