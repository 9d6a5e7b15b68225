//! Series of runs behind each row of a comparison.

use std::collections::BTreeMap;

use wakepath_results::{Design, Mean, Metric, MetricRow};

use super::comparison::Row;
use super::selection::{CompareOptions, index_or_append};
use super::source::{Load, Source, name_beside_sources};
use crate::gain::{estimate_gain, interval_of_mean, standard_deviation};
use crate::warnings::find_series_warnings;

/// Seed of the bootstrap resampling: the same values give the same intervals.
const SEED: u64 = 1;

/// Indices of a series: metric, load and policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesKey {
    pub(super) metric: usize,
    pub(super) load: usize,
    pub(super) policy: usize,
}

/// A run's value.
#[derive(Clone, Copy, Debug)]
struct RunValue {
    block: u32,
    /// Position of the run in the session.
    order: u32,
    value: f64,
}

/// Runs for a metric on a workload under a policy.
#[derive(Debug, Default)]
pub(super) struct Series {
    design: Option<Design>,
    source: usize,
    runs: Vec<RunValue>,
}

/// What a series is compared with.
#[derive(Clone, Copy)]
pub(super) enum Reference<'a> {
    /// The series is a baseline and compared with nothing.
    Itself,
    /// The baseline of this name has no such runs.
    Missing(&'a str),
    /// The power of the baseline with this name counts another scope.
    OtherScope(&'a str),
    /// Name and runs of the baseline that the series is compared with.
    Baseline(&'a str, &'a Series),
}

/// All series of a comparison, with loads and policies in the order of first occurrence.
#[derive(Default)]
pub(super) struct SeriesTable {
    pub(super) loads: Vec<Load>,
    pub(super) policies: Vec<String>,
    pub(super) series: BTreeMap<SeriesKey, Series>,
}

impl SeriesTable {
    /// Collects the series of the selected rows from all sources.
    pub(super) fn collect_series(
        sources: &[Source],
        options: &CompareOptions,
        metrics: &[Metric],
    ) -> Self {
        let mut table = Self::default();
        let names = metrics.iter().enumerate();
        let metrics: BTreeMap<&str, usize> = names.map(|(i, m)| (&*m.name, i)).collect();
        for (index, source) in sources.iter().enumerate() {
            table.add_loads_and_policies(sources, source, options);
            table.add_source_rows(sources, index, options, &metrics);
        }
        table
    }

    /// Adds the loads and policies that the source's document names.
    fn add_loads_and_policies(
        &mut self,
        sources: &[Source],
        source: &Source,
        options: &CompareOptions,
    ) {
        let document = &source.document;
        for (machine, workload) in document.planned_machine_workload_pairs() {
            if options.is_selected(&machine.name, &workload.name) {
                let load = Load::new(document, &machine.name, &workload.name);
                index_or_append(&mut self.loads, load);
            }
        }
        for policy in &document.policies {
            let name = name_beside_sources(sources, source, &policy.name);
            index_or_append(&mut self.policies, name);
        }
    }

    fn add_source_rows(
        &mut self,
        sources: &[Source],
        index: usize,
        options: &CompareOptions,
        metrics: &BTreeMap<&str, usize>,
    ) {
        let source = &sources[index];
        // Rows come in long stretches from the same run, so that names are looked up once a
        // stretch.
        let mut last: Option<(&MetricRow, usize, usize)> = None;
        for row in &source.rows {
            let Some(metric) = metrics.get(row.metric.as_str()) else {
                continue;
            };
            if !options.is_selected(&row.machine, &row.workload) {
                continue;
            }
            let (load, policy) = match last {
                Some((other, load, policy)) if are_of_same_cell(other, row) => (load, policy),
                _ => {
                    let load = Load::new(&source.document, &row.machine, &row.workload);
                    let policy = name_beside_sources(sources, source, &row.policy);
                    (
                        index_or_append(&mut self.loads, load),
                        index_or_append(&mut self.policies, policy),
                    )
                }
            };
            last = Some((row, load, policy));
            let key = SeriesKey {
                metric: *metric,
                load,
                policy,
            };
            let series = self.series.entry(key).or_default();
            series.design = Some(source.document.design);
            series.source = index;
            series.runs.push(RunValue {
                block: row.block,
                order: row.order,
                value: row.value,
            });
        }
    }
}

fn are_of_same_cell(one: &MetricRow, other: &MetricRow) -> bool {
    (&one.machine, &one.workload, &one.policy) == (&other.machine, &other.workload, &other.policy)
}

impl Series {
    /// Values of the series in the session's order.
    fn values_in_order(&self) -> Vec<f64> {
        let mut runs = self.runs.clone();
        runs.sort_by_key(|run| run.order);
        runs.into_iter().map(|run| run.value).collect()
    }

    /// Whether both series were made in pairs: by one source, with one seed or in one block.
    fn is_paired_with(&self, other: &Self) -> bool {
        self.source == other.source
            && self.design == Some(Design::Paired)
            && other.design == Some(Design::Paired)
    }

    /// Makes the row of the series, with its gain but without a verdict.
    pub(super) fn make_row(
        &self,
        metric: &Metric,
        (load, policy): (&Load, &str),
        reference: Reference<'_>,
        level: f64,
    ) -> Row {
        let values = self.values_in_order();
        let mut row = Row {
            metric: metric.name.to_string(),
            load: load.clone(),
            policy: policy.to_owned(),
            runs: values.len(),
            mean: mean_of_metric(metric, &values),
            deviation: standard_deviation(&values),
            interval: interval_of_mean(metric.mean, &values, level),
            baseline: None,
            design: Design::Unpaired,
            gain: None,
            corrected_p: None,
            significant: false,
            verdict: None,
            sentence: String::new(),
            warnings: find_series_warnings(&values)
                .iter()
                .map(ToString::to_string)
                .collect(),
            values,
        };
        match reference {
            Reference::Itself => {}
            Reference::Missing(name) => {
                row.baseline = Some(name.to_owned());
                "the baseline has no such runs".clone_into(&mut row.sentence);
            }
            Reference::OtherScope(name) => {
                row.baseline = Some(name.to_owned());
                "the baseline's watts count something else (package, board or wall)"
                    .clone_into(&mut row.sentence);
            }
            Reference::Baseline(name, baseline) => {
                row.baseline = Some(name.to_owned());
                self.add_gain(&mut row, metric, baseline, level);
            }
        }
        row
    }

    /// Adds the gain over a baseline to the row, or the reason why none can be given.
    fn add_gain(&self, row: &mut Row, metric: &Metric, baseline: &Self, level: f64) {
        let (theirs, ours) = if self.is_paired_with(baseline) {
            row.design = Design::Paired;
            paired_values(&baseline.runs, &self.runs)
        } else {
            let theirs = baseline.runs.iter().map(|run| run.value).collect();
            (theirs, row.values.clone())
        };
        match estimate_gain(metric, &theirs, &ours, row.design, level, SEED) {
            Ok(gain) => row.gain = Some(gain),
            Err(error) => row.sentence = error.to_string(),
        }
    }
}

/// Values of both series from common blocks, in block order.
fn paired_values(a: &[RunValue], b: &[RunValue]) -> (Vec<f64>, Vec<f64>) {
    let blocks: BTreeMap<u32, f64> = a.iter().map(|run| (run.block, run.value)).collect();
    let mut pairs: Vec<(u32, f64, f64)> = b
        .iter()
        .filter_map(|run| Some((run.block, *blocks.get(&run.block)?, run.value)))
        .collect();
    pairs.sort_by_key(|(block, ..)| *block);
    pairs.into_iter().map(|(_, a, b)| (a, b)).unzip()
}

/// Mean of the metric over values; the arithmetic mean if a value is not above 0.
fn mean_of_metric(metric: &Metric, values: &[f64]) -> f64 {
    if values.iter().all(|v| *v > 0.0) {
        metric.mean.average(values)
    } else {
        Mean::Arithmetic.average(values)
    }
}
