//! Policies as answers to a question.

use serde::Serialize;
use wakepath_results::{Condition, Goal, Metric};

use crate::results::comparison::Row;
use crate::results::source::Load;

/// Whether a condition is kept, with the interval of the figure considered.
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
    /// How a row keeps a condition.
    pub(super) fn judge(condition: &Condition, row: &Row) -> Self {
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

/// A policy's figure on a workload.
#[derive(Clone, Debug, Serialize)]
pub struct MetricFigure {
    /// Metric name.
    pub metric: String,
    /// The workload on its machine.
    #[serde(flatten)]
    pub load: Load,
    /// Mean over the runs.
    pub mean: f64,
    /// The interval around the mean; none for fewer than 4 runs.
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

/// A policy to choose from.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The policy.
    pub policy: String,
    /// Geometric mean of the goal's metric over the workloads.
    pub value: f64,
    /// How far the value may be off, by the figures' intervals; none for too few runs.
    #[serde(skip)]
    pub doubt: Option<f64>,
    /// The goal's metric on each workload.
    pub figures: Vec<MetricFigure>,
    /// Whether all conditions are kept on all workloads.
    pub holds: Compliance,
    /// Percent of the limit by which the means miss the worst condition; 0 or less if all conditions are kept.
    pub miss_percent: f64,
    /// The worst condition's figure.
    pub worst: Option<MetricFigure>,
    /// The worst condition.
    pub condition: Option<Condition>,
}

/// The answer: candidates by preference.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The goal's metric.
    pub metric: Metric,
    /// Whether the metric is minimised or maximised.
    pub goal: Goal,
    /// Conditions to keep.
    pub keep: Vec<Condition>,
    /// Confidence level.
    pub level: f64,
    /// Candidates that surely keep every condition, then undecided candidates, then failing candidates. Each group begins
    /// with candidates whose means miss nothing, the best first; the rest follows, the nearest first.
    pub candidates: Vec<Candidate>,
    /// The answer in sentences: the policy, the next policy, the nearest better policies that miss.
    pub sentences: Vec<String>,
    /// Metrics: goal, then conditions.
    #[serde(skip)]
    pub(super) metrics: Vec<Metric>,
    /// Whether power is modelled with assumed figures.
    #[serde(skip)]
    pub(super) assumes_power: bool,
}
