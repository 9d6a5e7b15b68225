//! Selecting machines, workloads and metrics to compare.

use wakepath_results::Metric;
use wakepath_results::question::is_empty_or_contains;

use super::error::CompareError;
use super::source::Source;

/// Selection, baseline and level for a comparison.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// The baseline; none: on each machine the first source's baseline.
    pub baseline: Option<String>,
    /// Machine names; empty: all.
    pub machines: Vec<String>,
    /// Workload names; empty: all.
    pub workloads: Vec<String>,
    /// Metric names; empty: headline metrics, and metrics in questions.
    pub metrics: Vec<String>,
    /// Confidence level; none: the first source's.
    pub level: Option<f64>,
}

impl CompareOptions {
    /// Whether a workload on a machine is to be compared.
    pub(super) fn select(&self, machine: &str, workload: &str) -> bool {
        is_empty_or_contains(&self.machines, machine)
            && is_empty_or_contains(&self.workloads, workload)
    }

    /// Checks the names of workloads and machines.
    pub(super) fn check_names(&self, sources: &[Source]) -> Result<(), CompareError> {
        let workloads = sources.iter().flat_map(|s| &s.document.workloads);
        check_known("workload", &self.workloads, workloads.map(|w| &w.name))?;
        let machines = sources.iter().flat_map(|s| &s.document.machines);
        check_known("machine", &self.machines, machines.map(|m| &m.name))
    }

    /// The metrics to compare, each with one unit in all sources.
    pub(super) fn metrics(&self, sources: &[Source]) -> Result<Vec<Metric>, CompareError> {
        let known = known_metrics(sources)?;
        if self.metrics.is_empty() {
            let asked = |name: &str| {
                let mut questions = sources.iter().flat_map(|s| &s.document.questions);
                questions.any(|q| q.metric_names().any(|m| m == name))
            };
            let interesting = known.into_iter().filter(|m| m.headline || asked(&m.name));
            return Ok(interesting.cloned().collect());
        }
        if self.metrics.iter().any(|m| m == "all") {
            return Ok(known.into_iter().cloned().collect());
        }
        let mut wanted: Vec<Metric> = Vec::new();
        for name in &self.metrics {
            // A metric named twice has one table.
            if !wanted.iter().any(|m| m.name == *name) {
                wanted.push(find_metric(&known, name)?);
            }
        }
        Ok(wanted)
    }
}

/// Index of an item, which is added at the end if missing.
pub(super) fn index_of<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|n| *n == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// Names without repetitions, in order.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut once = Vec::new();
    for name in names {
        index_of(&mut once, name);
    }
    once.into_iter().cloned().collect()
}

fn check_known<'a>(
    what: &'static str,
    names: &[String],
    known: impl Iterator<Item = &'a String>,
) -> Result<(), CompareError> {
    let known = distinct(known);
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(CompareError::Unknown {
            what,
            name: name.clone(),
            known: known.join(", "),
        }),
    }
}

/// All sources' metrics.
fn known_metrics(sources: &[Source]) -> Result<Vec<&Metric>, CompareError> {
    let mut first_uses: Vec<(&Metric, &str)> = Vec::new();
    for source in sources {
        for metric in &source.document.metrics {
            let first_use = first_uses
                .iter()
                .find(|(known, _)| known.name == metric.name);
            match first_use {
                None => first_uses.push((metric, &source.name)),
                Some((known, first))
                    if known.unit != metric.unit || known.better != metric.better =>
                {
                    return Err(CompareError::MixedUnits {
                        metric: metric.name.to_string(),
                        one: known.unit.to_string(),
                        first: (*first).to_owned(),
                        other: metric.unit.to_string(),
                        second: source.name.clone(),
                    });
                }
                Some(_) => {}
            }
        }
    }
    Ok(first_uses.into_iter().map(|(metric, _)| metric).collect())
}

fn find_metric(known: &[&Metric], name: &str) -> Result<Metric, CompareError> {
    let found = known.iter().find(|m| m.name == name);
    found.map(|metric| (*metric).clone()).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|m| &*m.name).collect();
        CompareError::Unknown {
            what: "metric",
            name: name.to_owned(),
            known: names.join(", "),
        }
    })
}
