//! Selection of the machines, workloads and metrics to compare.

use wakepath_results::Metric;
use wakepath_results::question::is_empty_or_contains;

use super::error::CompareError;
use super::source::Source;

/// What to compare: selection, baseline and confidence level.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// Name of the baseline; `None`: on each machine the first source's baseline.
    pub baseline: Option<String>,
    /// Names of the machines to compare on; empty: all.
    pub machines: Vec<String>,
    /// Names of the workloads to compare on; empty: all.
    pub workloads: Vec<String>,
    /// Names of the metrics to compare; empty: headline metrics, and metrics in questions.
    pub metrics: Vec<String>,
    /// Confidence level; `None`: the first source's.
    pub level: Option<f64>,
}

impl CompareOptions {
    /// Whether a workload on a machine is selected.
    pub(super) fn is_selected(&self, machine: &str, workload: &str) -> bool {
        is_empty_or_contains(&self.machines, machine)
            && is_empty_or_contains(&self.workloads, workload)
    }

    /// Checks that the selected workloads and machines exist in the results.
    pub(super) fn check_selected_names(&self, sources: &[Source]) -> Result<(), CompareError> {
        let workloads = sources.iter().flat_map(|s| &s.document.workloads);
        check_names_are_known("workload", &self.workloads, workloads.map(|w| &w.name))?;
        let machines = sources.iter().flat_map(|s| &s.document.machines);
        check_names_are_known("machine", &self.machines, machines.map(|m| &m.name))
    }

    /// Metrics to compare, each with one unit in all sources.
    pub(super) fn metrics_to_compare(
        &self,
        sources: &[Source],
    ) -> Result<Vec<Metric>, CompareError> {
        let known = collect_known_metrics(sources)?;
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
            // A metric that is named twice is compared once.
            if !wanted.iter().any(|m| m.name == *name) {
                wanted.push(find_metric(&known, name)?);
            }
        }
        Ok(wanted)
    }
}

/// Index of an item in a list; a missing item is added at the end.
pub(super) fn index_or_append<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|n| *n == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// Names without repetitions, in the order of first occurrence.
pub(super) fn distinct_names<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut once = Vec::new();
    for name in names {
        index_or_append(&mut once, name);
    }
    once.into_iter().cloned().collect()
}

fn check_names_are_known<'a>(
    what: &'static str,
    names: &[String],
    known: impl Iterator<Item = &'a String>,
) -> Result<(), CompareError> {
    let known = distinct_names(known);
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
fn collect_known_metrics(sources: &[Source]) -> Result<Vec<&Metric>, CompareError> {
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
