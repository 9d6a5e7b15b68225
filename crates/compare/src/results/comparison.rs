//! A comparison: a row for every metric, workload and policy.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_results::{Design, Metric};

use super::source::Load;
use crate::figure::Unit;
use crate::gain::Gain;
use crate::power_scope::PowerCounts;
use crate::verdict::Verdict;

/// The correction of p-values.
pub const CORRECTION: &str = "Benjamini-Hochberg";

/// All policies beside their baselines.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The first machine's baseline; each row names its own baseline.
    pub baseline: String,
    /// The correction of p-values.
    pub correction: &'static str,
    /// Questions over which p-values are corrected.
    pub families: Vec<Family>,
    /// Confidence level.
    pub level: f64,
    /// Differences up to so many percent are of no interest.
    pub margin_percent: f64,
    /// All policies, the baseline first.
    pub policies: Vec<String>,
    /// Machines of results with several machines; policies are only compared on the same machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// All workloads.
    pub workloads: Vec<String>,
    /// Each workload on each machine.
    #[serde(skip)]
    pub loads: Vec<Load>,
    /// The metrics with values.
    pub metrics: Vec<Metric>,
    /// A row for each combination with values, by metric, workload and policy.
    pub rows: Vec<Row>,
    /// Gains over all workloads.
    pub summaries: Vec<Summary>,
    /// Notes on the whole comparison for a reader.
    pub notes: Vec<String>,
    /// Whether power and energy are modelled with assumed figures, and so deserve few digits.
    #[serde(skip)]
    pub assumes_power: bool,
    /// What power counts on each machine.
    #[serde(skip)]
    pub(super) power_counts: PowerCounts,
}

/// Metric, load and values, to the bit.
type Fingerprint<'a> = (&'a str, &'a Load, Vec<u64>);

impl Comparison {
    /// The unit of a metric's figures for people.
    pub fn unit(&self, metric: &Metric) -> Unit {
        let rows = self.rows.iter().filter(|r| r.metric == metric.name);
        self.digits_of(Unit::for_values(&metric.unit, rows.map(|r| r.mean)))
    }

    /// Groups of policies whose runs gave the same values in every metric and workload. Policies and groups keep the order
    /// of the comparison; a policy without an equal is in no group.
    pub fn equal_policies(&self) -> Vec<Vec<&str>> {
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

    /// A unit with the digits that the comparison's figures deserve.
    pub fn digits_of(&self, unit: Unit) -> Unit {
        if self.assumes_power {
            unit.assumed()
        } else {
            unit
        }
    }
}

/// All comparisons in a metric, for which p-values are corrected together.
#[derive(Clone, Debug, Serialize)]
pub struct Family {
    /// Metric name.
    pub metric: String,
    /// Comparison count.
    pub comparisons: usize,
}

/// A metric on a workload under a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Metric name.
    pub metric: String,
    /// The workload on its machine.
    #[serde(flatten)]
    pub load: Load,
    /// The policy.
    pub policy: String,
    /// Run count.
    pub runs: usize,
    /// The metric's mean over the runs.
    pub mean: f64,
    /// Standard deviation; none for a single run.
    pub deviation: Option<f64>,
    /// The interval around the mean; none for fewer than 4 runs.
    pub interval: Option<[f64; 2]>,
    /// Values in the session's order.
    #[serde(skip)]
    pub values: Vec<f64>,
    /// The baseline; none for a baseline itself.
    pub baseline: Option<String>,
    /// Whether runs were compared with the baseline's runs in pairs.
    pub design: Design,
    /// The gain over the baseline; none for the baseline itself.
    pub gain: Option<Gain>,
    /// The gain's p-value, corrected for all comparisons in the metric.
    pub corrected_p: Option<f64>,
    /// Whether the gain is significant after the correction, and larger than the margin.
    pub significant: bool,
    /// The verdict on the gain.
    pub verdict: Option<Verdict>,
    /// The verdict in words, or why there is none.
    pub sentence: String,
    /// Warnings about the series.
    pub warnings: Vec<String>,
}

/// A metric over all workloads.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Metric name.
    pub metric: String,
    /// The policy.
    pub policy: String,
    /// Workloads with the metric under the policy and its baseline, counted on each machine.
    pub workloads: usize,
    /// Gain of the geometric mean over workloads, in percent, plus being better.
    pub percent: f64,
}
