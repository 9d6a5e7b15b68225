//! Result of a comparison: a row for every metric, workload and policy.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_results::{Design, Metric};

use super::source::Load;
use crate::figure::Unit;
use crate::gain::Gain;
use crate::power_scope::PowerCounts;
use crate::verdict::Verdict;

/// Name of the method that corrects p-values for many comparisons.
pub const CORRECTION: &str = "Benjamini-Hochberg";

/// Comparison of all policies with their baselines.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the first machine's baseline; each row names its own baseline.
    pub baseline: String,
    /// Method by which p-values are corrected.
    pub correction: &'static str,
    /// Families of comparisons over which p-values are corrected together.
    pub families: Vec<Family>,
    /// Confidence level.
    pub level: f64,
    /// Margin in percent: smaller differences are of no interest.
    pub margin_percent: f64,
    /// Names of all policies, the baseline first.
    pub policies: Vec<String>,
    /// Names of the machines if there are several; policies are only compared on the same machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// All workloads.
    pub workloads: Vec<String>,
    /// Loads of the comparison: each workload on each machine.
    #[serde(skip)]
    pub loads: Vec<Load>,
    /// Metrics that have values in the results.
    pub metrics: Vec<Metric>,
    /// Rows for all combinations with values, by metric, workload and policy.
    pub rows: Vec<Row>,
    /// Gains of each policy over all workloads.
    pub summaries: Vec<Summary>,
    /// Notes on the whole comparison for a reader.
    pub notes: Vec<String>,
    /// Whether power and energy are modelled with assumed figures, and so deserve few digits.
    #[serde(skip)]
    pub assumes_power: bool,
    /// Scope that power counts on each machine.
    #[serde(skip)]
    pub(super) power_counts: PowerCounts,
}

/// Metric, load and exact values of a row, to find policies with equal runs.
type Fingerprint<'a> = (&'a str, &'a Load, Vec<u64>);

impl Comparison {
    /// Unit in which a metric's figures are shown to people.
    pub fn unit_for_metric(&self, metric: &Metric) -> Unit {
        let rows = self.rows.iter().filter(|r| r.metric == metric.name);
        self.reduce_digits_if_assumed(Unit::for_values(&metric.unit, rows.map(|r| r.mean)))
    }

    /// Groups of policies whose runs gave the same values in every metric and workload. Policies
    /// and groups keep the order of the comparison; a policy without an equal is in no group.
    pub fn groups_of_equal_policies(&self) -> Vec<Vec<&str>> {
        let mut groups: Vec<(Vec<Fingerprint<'_>>, Vec<&str>)> = Vec::new();
        let mut by_policy: BTreeMap<&str, Vec<Fingerprint<'_>>> = BTreeMap::new();
        for row in &self.rows {
            let values = row.values.iter().map(|value| value.to_bits()).collect();
            let rows = by_policy.entry(&row.policy).or_default();
            rows.push((&row.metric, &row.load, values));
        }
        for policy in &self.policies {
            let Some(rows) = by_policy.remove(policy.as_str()) else {
                continue;
            };
            match groups.iter_mut().find(|(same, _)| *same == rows) {
                Some((_, group)) => group.push(policy),
                None => groups.push((rows, vec![policy])),
            }
        }
        let policies = groups.into_iter().map(|(_, group)| group);
        policies.filter(|group| group.len() > 1).collect()
    }

    /// A unit with the digits that the comparison's figures deserve: fewer for assumed power.
    pub fn reduce_digits_if_assumed(&self, unit: Unit) -> Unit {
        if self.assumes_power {
            unit.for_assumed_power()
        } else {
            unit
        }
    }
}

/// All comparisons in one metric, for which p-values are corrected together.
#[derive(Clone, Debug, Serialize)]
pub struct Family {
    /// Metric name.
    pub metric: String,
    /// Comparison count.
    pub comparisons: usize,
}

/// Result for one metric on a workload under a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Metric name.
    pub metric: String,
    /// Workload, with its machine if there are several.
    #[serde(flatten)]
    pub load: Load,
    /// The policy.
    pub policy: String,
    /// Run count.
    pub runs: usize,
    /// Mean of the metric over the runs.
    pub mean: f64,
    /// Standard deviation of the runs; `None` for a single run.
    pub deviation: Option<f64>,
    /// Interval around the mean; `None` for fewer than 4 runs.
    pub interval: Option<[f64; 2]>,
    /// Values of the runs in the session's order.
    #[serde(skip)]
    pub values: Vec<f64>,
    /// Name of the baseline; `None` for a baseline itself.
    pub baseline: Option<String>,
    /// Whether runs were compared with the baseline's runs in pairs.
    pub design: Design,
    /// Gain over the baseline; `None` for the baseline itself.
    pub gain: Option<Gain>,
    /// P-value of the gain, corrected for all comparisons in the metric.
    pub corrected_p: Option<f64>,
    /// Whether the gain is significant after the correction, and larger than the margin.
    pub significant: bool,
    /// Verdict on the gain.
    pub verdict: Option<Verdict>,
    /// Verdict on the gain in words, or why there is none.
    pub sentence: String,
    /// Warnings about the runs of this row, in words.
    pub warnings: Vec<String>,
}

/// Gain of a policy in a metric over all workloads.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Metric name.
    pub metric: String,
    /// The policy.
    pub policy: String,
    /// Number of workloads with the metric under the policy and its baseline, counted on each
    /// machine.
    pub workloads: usize,
    /// Gain of the geometric mean over workloads, in percent; plus is better.
    pub percent: f64,
}
