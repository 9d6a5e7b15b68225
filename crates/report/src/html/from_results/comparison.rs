//! Every policy's metrics beside the baseline's, as `wakepath compare` has them.

use std::collections::BTreeMap;

use wakepath_compare::figure::{Unit, doubt_about_mean};
use wakepath_compare::results::{
    self, CompareError, CompareOptions, Source, compare_results, name_beside_sources,
};
use wakepath_compare::{
    Verdict, describe_differences, describe_mixed_scopes_of_machines, describe_shortfalls,
};
use wakepath_results::{Better, Metric, Question};

use super::super::view::{self, PageRow, Tone, View};
use super::error::FromResultsError;
use super::place::{Place, read_rows, warn_of_unplaced};

/// Values by workload, metric and policy, in the page's units if the page shows the metric.
pub(super) type Series = BTreeMap<(usize, String, usize), Vec<f64>>;

/// Values and results, compared.
pub(super) struct Compared {
    /// All values.
    pub(super) series: Series,
    /// The results in the order of the places.
    sources: Vec<Source>,
    /// Index in the view by the comparison's policy names.
    policies: BTreeMap<String, usize>,
    /// The comparison on the page; none if there is nothing to compare.
    comparison: Option<results::Comparison>,
    /// Units for the view's metrics.
    units: Vec<Unit>,
}

/// Fills in the metrics and the comparison.
///
/// A policy marked as baseline in the view is everybody's baseline. Without a mark each machine has its own, if the
/// baseline that it names exists.
pub(super) fn add_comparison(
    view: &mut View,
    places: &[Place<'_>],
    has_baseline: bool,
) -> Result<Compared, FromResultsError> {
    let mut compared = Compared::read(view, places)?;
    let mut names = compared.policies.iter();
    let wanted = names.find(|(_, i)| view.policies[**i].baseline);
    let options = CompareOptions {
        baseline: wanted.map(|(name, _)| name.clone()),
        ..CompareOptions::default()
    };
    if compared.series.is_empty() || !has_baseline && wanted.is_none() {
        return Ok(compared);
    }
    let comparison = compare_results(&compared.sources, &options)?;
    compared.mark_baselines(view, &comparison);
    compared.add_metrics(view, &comparison);
    view.rows = compared.page_rows(view, &comparison.rows);
    compared.comparison = Some(comparison);
    Ok(compared)
}

impl Compared {
    /// Reads the metrics of all results, and counts values of unknown cells.
    fn read(view: &mut View, places: &[Place<'_>]) -> Result<Self, FromResultsError> {
        let mut series = Series::new();
        let mut sources = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let mut lost = 0;
            let rows = read_rows(view, "comparison", place.reader.read_metric_rows())?;
            for row in &rows {
                match place.find_cell([&row.machine, &row.workload, &row.policy]) {
                    Some((workload, policy)) => series
                        .entry((workload, row.metric.clone(), policy))
                        .or_default()
                        .push(row.value),
                    None => lost += 1,
                }
            }
            warn_of_unplaced(view, "metrics.parquet", lost);
            // The name is never shown: it only keeps policies of several results apart.
            sources.push(Source::new(&index.to_string(), place.reader, rows)?);
        }
        let policies = places.iter().zip(&sources).flat_map(|(place, source)| {
            let names = place.policies.iter();
            names.map(|(name, index)| (name_beside_sources(&sources, source, name), *index))
        });
        Ok(Self {
            series,
            policies: policies.collect(),
            sources,
            comparison: None,
            units: Vec::new(),
        })
    }

    /// Marks policies that others are compared with. A policy without others to compare is no baseline.
    fn mark_baselines(&self, view: &mut View, comparison: &results::Comparison) {
        let rows = comparison.rows.iter();
        let names = rows.filter_map(|row| row.baseline.as_ref());
        for name in names.chain([&comparison.baseline]) {
            if let Some(policy) = self.policies.get(name) {
                view.policies[*policy].baseline = true;
            }
        }
    }

    /// Adds the comparison's metrics to the page, and turns values into the page's units.
    fn add_metrics(&mut self, view: &mut View, comparison: &results::Comparison) {
        let units = comparison
            .metrics
            .iter()
            .map(|m| comparison.unit_for_metric(m));
        self.units = units.collect();
        view.assumes_power = comparison.assumes_power;
        let metrics = comparison.metrics.iter().zip(&self.units);
        view.metrics = metrics.map(|(m, unit)| page_metric(m, unit)).collect();
        for ((_, name, _), values) in &mut self.series {
            if let Some(metric) = view.metrics.iter().position(|m| m.name == *name) {
                for value in values {
                    *value *= self.units[metric].factor;
                }
            }
        }
    }

    /// Differences between results besides their policies, and runs that did less than requested. A result is called by
    /// the suffix of its policies.
    pub(super) fn cautions(&self, suffixes: &[String]) -> Vec<String> {
        let names = suffixes.iter().map(|suffix| {
            let inside = suffix.strip_prefix(" (").and_then(|s| s.strip_suffix(')'));
            inside.unwrap_or(suffix)
        });
        let named: Vec<(&str, &Source)> = names.zip(&self.sources).collect();
        let mut cautions = describe_differences(&named);
        cautions.extend(describe_shortfalls(&named));
        if let Some(comparison) = &self.comparison {
            cautions.extend(describe_mixed_scopes_of_machines(
                &self.sources,
                &comparison.machines,
            ));
        }
        cautions
    }

    /// A comparison's rows for the page.
    fn page_rows(&self, view: &View, rows: &[results::Row]) -> Vec<PageRow> {
        let placed = rows.iter().filter_map(|row| {
            let load = row.load.to_string();
            let workload = view.workloads.iter().position(|w| w.name == load)?;
            let metric = view.metrics.iter().position(|m| m.name == row.metric)?;
            let policy = *self.policies.get(&row.policy)?;
            let unit = self.units.get(metric)?;
            Some(page_row(row, [workload, metric, policy], unit))
        });
        let mut page_rows: Vec<PageRow> = placed.collect();
        page_rows.sort_by_key(|r| (r.workload, r.metric, r.policy));
        page_rows
    }

    /// Answers a question with a goal from result number `index`, with the page's policy names.
    pub(super) fn answers(
        &self,
        view: &View,
        index: usize,
        question: &Question,
    ) -> Vec<results::Answer> {
        let Some(comparison) = &self.comparison else {
            return Vec::new();
        };
        let mut answers = results::answer_question(&self.sources, index, question, comparison);
        for answer in &mut answers {
            answer.rename_policies(|policy| {
                let shown = self.policies.get(policy).map(|i| &view.policies[*i].name);
                shown.map_or_else(|| policy.to_owned(), Clone::clone)
            });
        }
        answers
    }

    /// Compares with the baseline that a question in result number `index` names. P-values are corrected for the
    /// comparisons in the answer only.
    pub(super) fn with_baseline(
        &self,
        view: &View,
        index: usize,
        question: &Question,
        baseline: &str,
    ) -> Result<Vec<PageRow>, CompareError> {
        let mut sources = self.sources.clone();
        for (number, source) in sources.iter_mut().enumerate() {
            source.rows.retain(|row| {
                let asked = question.policies.is_empty()
                    || number == index && question.includes_policy(&row.policy);
                let is_baseline = number == index && row.policy == baseline;
                row.metric == question.metric
                    && question.includes_workload(&row.workload)
                    && question.includes_machine(&row.machine)
                    && (asked || is_baseline)
            });
        }
        let options = CompareOptions {
            baseline: Some(name_beside_sources(
                &self.sources,
                &self.sources[index],
                baseline,
            )),
            metrics: vec![question.metric.clone()],
            ..CompareOptions::default()
        };
        match compare_results(&sources, &options) {
            Ok(comparison) => Ok(self.page_rows(view, &comparison.rows)),
            Err(CompareError::Nothing) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn page_metric(metric: &Metric, unit: &Unit) -> view::PageMetric {
    view::PageMetric {
        name: metric.name.to_string(),
        title: metric.title.to_string(),
        unit: unit.name.clone(),
        meaning: metric.meaning.to_string(),
        higher_is_better: match metric.better {
            Better::Higher => Some(true),
            Better::Lower => Some(false),
            Better::Neither => None,
        },
    }
}

/// A comparison's row for the page.
fn page_row(row: &results::Row, [workload, metric, policy]: [usize; 3], unit: &Unit) -> PageRow {
    PageRow {
        workload,
        metric,
        policy,
        mean: row.mean * unit.factor,
        decimals: match doubt_about_mean(row.interval, row.deviation) {
            None if *unit == unit.clone().for_assumed_power() => {
                Some(unit.decimals_of_figure(row.mean, None))
            }
            None => None,
            doubt => Some(unit.decimals_of_figure(row.mean, doubt)),
        },
        deviation_percent: row
            .deviation
            .map(|d| 100.0 * d / row.mean.abs())
            .filter(|d| d.is_finite()),
        runs: row.runs,
        warnings: row.warnings.clone(),
        verdict: row.sentence.clone(),
        tone: match row.verdict {
            Some(Verdict::Better { .. }) => Tone::Better,
            Some(Verdict::Worse { .. }) => Tone::Worse,
            Some(Verdict::NoDifference { .. }) => Tone::Same,
            Some(Verdict::More { .. } | Verdict::Less { .. } | Verdict::CannotTell { .. })
            | None => Tone::Open,
        },
        gain: row.gain.map(|gain| view::PageGain {
            percent: gain.percent,
            interval: Some(gain.interval),
            effect: gain.effect,
            significant: row.significant,
        }),
    }
}
