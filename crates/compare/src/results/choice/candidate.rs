//! Policies that were asked about, with how well they answer.

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
            .map(|ends| ends.map(|end| condition.keeps(end)));
        match kept {
            Some([true, true]) => Self::Surely,
            Some([false, false]) => Self::Fails,
            _ => Self::CannotTell,
        }
    }
}

/// A figure of a policy on a workload.
#[derive(Clone, Debug, Serialize)]
pub struct MetricFigure {
    /// Name of the metric.
    pub metric: String,
    /// The workload on its machine.
    #[serde(flatten)]
    pub load: Load,
    /// Mean over the runs.
    pub mean: f64,
    /// The interval around the mean; none for fewer than 4 runs.
    pub interval: Option<[f64; 2]>,
    /// Number of runs.
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

/// A policy that was asked about.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The policy.
    pub policy: String,
    /// Geometric mean over the workloads of the metric that is minimised or maximised.
    pub value: f64,
    /// How far the value may be off by the intervals of its figures; none for too few runs.
    #[serde(skip)]
    pub doubt: Option<f64>,
    /// The metric that is minimised or maximised, on each workload.
    pub figures: Vec<MetricFigure>,
    /// Whether all conditions are kept on all workloads.
    pub holds: Compliance,
    /// Percent of its limit by which the worst condition is missed, by the means; 0 or less if all are kept.
    pub miss_percent: f64,
    /// The figure of the worst condition.
    pub worst: Option<MetricFigure>,
    /// The worst condition.
    pub condition: Option<Condition>,
}

/// The answer: candidates in the order of preference.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The metric that is minimised or maximised.
    pub metric: Metric,
    /// Whether the metric is minimised or maximised.
    pub goal: Goal,
    /// Conditions to keep.
    pub keep: Vec<Condition>,
    /// Confidence level of the intervals.
    pub level: f64,
    /// Candidates that surely keep every condition, then undecided ones, then failing ones. Each group begins with the
    /// candidates whose means miss nothing, the best first; then come the others, the nearest first.
    pub candidates: Vec<Candidate>,
    /// The answer in sentences: the policy, the next policy, the nearest better policies that miss.
    pub sentences: Vec<String>,
    /// The metric of the goal and the metrics of the conditions.
    #[serde(skip)]
    pub(super) metrics: Vec<Metric>,
    /// Whether power is modelled with assumed figures.
    #[serde(skip)]
    pub(super) assumes_power: bool,
}
