//! Policies to choose from as the answer to a question.

use serde::Serialize;
use wakepath_results::{Condition, Goal, Metric};

use crate::results::comparison::Row;
use crate::results::source::Load;

/// Whether a policy keeps a condition, given the interval of its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compliance {
    /// The whole interval keeps the condition.
    Surely,
    /// The interval reaches beyond the limit, or the runs are too few for an interval.
    CannotTell,
    /// The whole interval breaks the condition.
    Fails,
}

impl Compliance {
    /// Judges whether the figure in a row keeps a condition.
    pub(super) fn judge_row(condition: &Condition, row: &Row) -> Self {
        let kept = row
            .interval
            .map(|ends| ends.map(|end| condition.is_met_by(end)));
        match kept {
            Some([true, true]) => Self::Surely,
            Some([false, false]) => Self::Fails,
            _ => Self::CannotTell,
        }
    }
}

/// Mean of a metric under a policy on one workload.
#[derive(Clone, Debug, Serialize)]
pub struct MetricFigure {
    /// Metric name.
    pub metric: String,
    /// Workload, with its machine if there are several.
    #[serde(flatten)]
    pub load: Load,
    /// Mean of the metric over the runs.
    pub mean: f64,
    /// Interval around the mean; `None` for fewer than 4 runs.
    pub interval: Option<[f64; 2]>,
    /// Run count.
    pub runs: usize,
}

impl From<&Row> for MetricFigure {
    fn from(row: &Row) -> Self {
        Self {
            metric: row.metric.clone(),
            load: row.load.clone(),
            mean: row.mean,
            interval: row.interval,
            runs: row.runs,
        }
    }
}

/// A policy to choose from, with its values.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The policy.
    pub policy: String,
    /// Geometric mean of the goal's metric over the workloads.
    pub value: f64,
    /// How far the value may be off, by the figures' intervals; `None` for too few runs.
    #[serde(skip)]
    pub doubt: Option<f64>,
    /// Figures in the goal's metric, one for each workload.
    pub figures: Vec<MetricFigure>,
    /// Whether the policy keeps all conditions on all workloads.
    pub holds: Compliance,
    /// Percent of the limit by which the means miss the worst condition; 0 or less if all
    /// conditions are kept.
    pub miss_percent: f64,
    /// Figure that is nearest to breaking a condition, or breaks it most.
    pub worst: Option<MetricFigure>,
    /// The worst condition.
    pub condition: Option<Condition>,
}

/// Choice of a policy for an objective: candidates by preference.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The goal's metric.
    pub metric: Metric,
    /// Whether the goal's metric is minimised or maximised.
    pub goal: Goal,
    /// Conditions to keep.
    pub keep: Vec<Condition>,
    /// Confidence level.
    pub level: f64,
    /// Candidates for the choice by preference: those that surely keep every condition, then
    /// undecided ones, then failing ones. Each group begins with candidates whose means miss
    /// nothing, the best first; the rest follows, the nearest first.
    pub candidates: Vec<Candidate>,
    /// Sentences on the choice: the chosen policy, the next policy, the nearest better policies
    /// that miss.
    pub sentences: Vec<String>,
    /// Metrics of the objective: goal, then conditions.
    #[serde(skip)]
    pub(super) metrics: Vec<Metric>,
    /// Whether power is modelled with assumed figures.
    #[serde(skip)]
    pub(super) assumes_power: bool,
}
