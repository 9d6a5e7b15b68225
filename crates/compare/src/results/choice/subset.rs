//! Policies and workloads to choose from.

use std::collections::BTreeMap;

use wakepath_results::question::is_empty_or_contains;
use wakepath_results::{Mean, Metric};

use crate::figure::doubt;
use crate::power_scope::has_scope;
use crate::results::comparison::{Comparison, Row};
use crate::results::error::CompareError;
use crate::results::source::Load;

/// A part of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Subset {
    /// Policies by their names in the comparison; empty: all.
    pub policies: Vec<String>,
    /// Workloads on machines; empty: all.
    pub loads: Vec<Load>,
}

/// A policy with its rows by metric and workload.
pub(super) struct PolicyRows<'a> {
    pub(super) policy: &'a str,
    pub(super) rows: Vec<Vec<&'a Row>>,
}

/// The rows of a comparison by metric, load and policy.
type RowIndex<'a> = BTreeMap<(&'a str, &'a Load, &'a str), &'a Row>;

impl Subset {
    /// The policies that have all these metrics on every workload.
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
            .filter_map(|policy| find_rows(&index, metrics, loads, policy))
            .collect();
        if complete.is_empty() {
            return Err(missing_figures(&index, metrics, loads, &policies));
        }
        match mixed_power(comparison, metrics, &complete, loads) {
            Some(sentence) => Err(CompareError::MixedPower(sentence)),
            None => Ok(complete),
        }
    }
}

/// A policy's rows, if none is missing.
fn find_rows<'a>(
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

/// Why no policy has all metrics on all loads: the first pair that no policy has.
fn missing_figures(
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

/// Why these policies cannot be ranked, if a metric is power and counts different things on their machines.
fn mixed_power(
    comparison: &Comparison,
    metrics: &[&str],
    policies: &[PolicyRows<'_>],
    loads: &[Load],
) -> Option<String> {
    if !metrics.iter().any(|metric| has_scope(metric)) {
        return None;
    }
    let pairs = policies.iter().flat_map(|candidate| {
        let machines = loads.iter().map(|load| load.machine.as_str());
        machines.map(|machine| (candidate.policy, machine))
    });
    comparison.power_counts.mixed(pairs)
}

/// The metric with a name.
pub(super) fn find_metric<'a>(
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

/// Mean over workloads, and how far it may be off if the figures are off independently of each other. The mean is
/// geometric, and arithmetic if a figure is not above 0.
pub(super) fn mean_over_workloads(rows: &[&Row]) -> (f64, Option<f64>) {
    let means: Vec<f64> = rows.iter().map(|row| row.mean).collect();
    let positive = means.iter().all(|mean| *mean > 0.0);
    let mean = if positive {
        Mean::Geometric
    } else {
        Mean::Arithmetic
    };
    let value = mean.average(&means);
    let doubts = rows.iter().zip(&means).map(|(row, mean)| {
        let doubt = doubt(row.interval, row.deviation)?;
        // A geometric mean is off by a share.
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
