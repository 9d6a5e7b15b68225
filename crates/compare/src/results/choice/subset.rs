//! Part of a comparison to choose from: policies and loads.

use std::collections::BTreeMap;

use wakepath_results::question::is_empty_or_contains;
use wakepath_results::{Mean, Metric};

use crate::figure::doubt_about_mean;
use crate::power_scope::is_scoped_power_metric;
use crate::results::comparison::{Comparison, Row};
use crate::results::error::CompareError;
use crate::results::source::Load;

/// The policies and loads of a comparison to choose from.
#[derive(Clone, Debug, Default)]
pub struct Subset {
    /// Names of policies in the comparison; empty: all.
    pub policies: Vec<String>,
    /// Workloads on machines; empty: all.
    pub loads: Vec<Load>,
}

/// A policy with its rows by metric and load.
pub(super) struct PolicyRows<'a> {
    pub(super) policy: &'a str,
    pub(super) rows: Vec<Vec<&'a Row>>,
}

/// Index of a comparison's rows by metric, load and policy.
type RowIndex<'a> = BTreeMap<(&'a str, &'a Load, &'a str), &'a Row>;

impl Subset {
    /// Rows of the policies that have all these metrics on every load.
    ///
    /// # Errors
    ///
    /// No policy has all metrics, or power cannot be compared.
    pub(super) fn policy_rows<'a>(
        &self,
        comparison: &'a Comparison,
        metrics: &[&str],
    ) -> Result<Vec<PolicyRows<'a>>, CompareError> {
        let policies: Vec<&String> = comparison
            .policies
            .iter()
            .filter(|policy| is_empty_or_contains(&self.policies, policy))
            .collect();
        let loads = match self.loads[..] {
            [] => &comparison.loads,
            _ => &self.loads,
        };
        let index: RowIndex<'_> = comparison
            .rows
            .iter()
            .map(|row| ((&*row.metric, &row.load, &*row.policy), row))
            .collect();
        let complete: Vec<PolicyRows<'_>> = policies
            .iter()
            .filter_map(|policy| complete_rows_of_policy(&index, metrics, loads, policy))
            .collect();
        if complete.is_empty() {
            return Err(missing_figures_error(&index, metrics, loads, &policies));
        }
        match explain_mixed_power(comparison, metrics, &complete, loads) {
            Some(sentence) => Err(CompareError::MixedPower(sentence)),
            None => Ok(complete),
        }
    }
}

/// Rows of a policy in the metrics and loads; `None` if one is missing.
fn complete_rows_of_policy<'a>(
    index: &RowIndex<'a>,
    metrics: &[&str],
    loads: &[Load],
    policy: &'a str,
) -> Option<PolicyRows<'a>> {
    let rows = metrics.iter().map(|metric| {
        let metric_rows = loads.iter().map(|load| index.get(&(*metric, load, policy)));
        metric_rows.map(Option::<&&Row>::copied).collect()
    });
    Some(PolicyRows {
        policy,
        rows: rows.collect::<Option<_>>()?,
    })
}

/// Makes the error that names the first metric and load without figures under any policy.
fn missing_figures_error(
    index: &RowIndex<'_>,
    metrics: &[&str],
    loads: &[Load],
    policies: &[&String],
) -> CompareError {
    let mut pairs = metrics
        .iter()
        .flat_map(|metric| loads.iter().map(move |load| (*metric, load)));
    let missing = pairs.find(|(metric, load)| {
        !policies
            .iter()
            .any(|policy| index.contains_key(&(*metric, *load, policy.as_str())))
    });
    match missing {
        Some((metric, load)) => CompareError::NoFigures {
            metric: metric.to_owned(),
            workload: load.to_string(),
        },
        None => CompareError::Nothing,
    }
}

/// Explains why policies cannot be ranked by power that counts different things on their machines;
/// `None` if they can.
fn explain_mixed_power(
    comparison: &Comparison,
    metrics: &[&str],
    policies: &[PolicyRows<'_>],
    loads: &[Load],
) -> Option<String> {
    if !metrics.iter().any(|metric| is_scoped_power_metric(metric)) {
        return None;
    }
    let pairs = policies.iter().flat_map(|candidate| {
        let machines = loads.iter().map(|load| load.machine.as_str());
        machines.map(|machine| (candidate.policy, machine))
    });
    comparison.power_counts.describe_mixed_scopes(pairs)
}

/// Finds a metric of the comparison by name.
pub(super) fn metric_by_name<'a>(
    comparison: &'a Comparison,
    name: &str,
) -> Result<&'a Metric, CompareError> {
    let found = comparison.metrics.iter().find(|m| m.name == name);
    found.ok_or_else(|| {
        let known = comparison.metrics.iter().map(|m| &*m.name);
        CompareError::Unknown {
            what: "metric",
            name: name.to_owned(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    })
}

/// Mean over workloads, and how far it may be off if the figures are off independently of each
/// other. The mean is geometric, and arithmetic if a figure is not above 0.
pub(super) fn mean_and_doubt_over_workloads(rows: &[&Row]) -> (f64, Option<f64>) {
    let means: Vec<f64> = rows.iter().map(|row| row.mean).collect();
    let positive = means.iter().all(|mean| *mean > 0.0);
    let mean = if positive {
        Mean::Geometric
    } else {
        Mean::Arithmetic
    };
    let value = mean.average(&means);
    let doubts = rows.iter().zip(&means).map(|(row, mean)| {
        let doubt = doubt_about_mean(row.interval, row.deviation)?;
        // The geometric mean is off by a share of itself, the arithmetic mean by an amount.
        Some(if positive {
            doubt / mean * value
        } else {
            doubt
        })
    });
    let doubts: Option<Vec<f64>> = doubts.collect();
    let doubt = doubts.map(|doubts| {
        let squares: f64 = doubts.iter().map(|doubt| doubt.powi(2)).sum();
        squares.sqrt() / means.len() as f64
    });
    (value, doubt)
}
