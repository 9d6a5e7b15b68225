//! Every policy's metrics beside the baseline's, as `wakepath compare` has them.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_compare::figure::{Unit, doubt_about_mean};
use wakepath_compare::results::{
    self, CompareError, CompareOptions, Source, compare_results, name_beside_sources,
};
use wakepath_compare::{
    Verdict, count_assumed_figures, describe_differences, describe_mixed_scopes_of_machines,
    describe_shortfalls,
};
use wakepath_results::{Better, Metric, Question, RunOrigin};

use super::super::view::{self, Focus, Limit, PageRow, Tone, View};
use super::error::FromResultsError;
use super::place::{PlacedResult, add_caution_if_rows_left_out, rows_or_caution_if_missing};

/// Values by workload, metric and policy, in the page's units if the page shows the metric.
pub(super) type Series = BTreeMap<(usize, String, usize), Vec<f64>>;

/// Metric values of all results, and their comparison.
pub(super) struct Compared {
    /// Values of all runs by workload, metric and policy.
    pub(super) series: Series,
    /// Results to compare, in the order in which the page takes them.
    sources: Vec<Source>,
    /// Index of a policy in the view, by the policy's name in the comparison.
    policies: BTreeMap<String, usize>,
    /// The comparison on the page; none if there is nothing to compare.
    comparison: Option<results::Comparison>,
    /// Units in which the page shows its metrics, in the order of the view.
    units: Vec<Unit>,
}

/// Fills in the metrics and the comparison.
///
/// A policy marked as baseline in the view is everybody's baseline. Without a mark each machine has its own, if the
/// baseline that it names exists.
pub(super) fn add_comparison(
    view: &mut View,
    places: &[PlacedResult<'_>],
    has_baseline: bool,
) -> Result<Compared, FromResultsError> {
    let mut compared = Compared::read_metrics_of_results(view, places)?;
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
    compared.set_metrics_and_convert_series_units(view, &comparison);
    view.rows = compared.rows_for_page(view, &comparison.rows);
    compared.comparison = Some(comparison);
    Ok(compared)
}

impl Compared {
    /// Reads the metrics of all results, and counts values of unknown cells.
    fn read_metrics_of_results(
        view: &mut View,
        places: &[PlacedResult<'_>],
    ) -> Result<Self, FromResultsError> {
        let mut series = Series::new();
        let mut sources = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let mut lost = 0;
            let rows =
                rows_or_caution_if_missing(view, "comparison", place.reader.read_metric_rows())?;
            for row in &rows {
                match place.find_workload_and_policy_indices([
                    &row.machine,
                    &row.workload,
                    &row.policy,
                ]) {
                    Some((workload, policy)) => series
                        .entry((workload, row.metric.clone(), policy))
                        .or_default()
                        .push(row.value),
                    None => lost += 1,
                }
            }
            add_caution_if_rows_left_out(view, "metrics.parquet", lost);
            // This name of a result is never shown: it only keeps policies of several results apart.
            sources.push(Source::new(&index.to_string(), place.reader, rows)?);
        }
        view.assumed_figures = count_assumed_figures_once_per_machine_text(&sources);
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
    fn set_metrics_and_convert_series_units(
        &mut self,
        view: &mut View,
        comparison: &results::Comparison,
    ) {
        let units = comparison
            .metrics
            .iter()
            .map(|m| comparison.unit_for_metric(m));
        self.units = units.collect();
        view.assumes_power = comparison.assumes_power;
        let metrics = comparison.metrics.iter().zip(&self.units);
        view.metrics = metrics
            .map(|(m, unit)| describe_metric_for_page(m, unit))
            .collect();
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
    pub(super) fn describe_differences_and_shortfalls(&self, suffixes: &[String]) -> Vec<String> {
        let names = suffixes.iter().map(|suffix| {
            let inside = suffix.strip_prefix(" (").and_then(|s| s.strip_suffix(')'));
            inside.unwrap_or(suffix)
        });
        let named: Vec<(&str, &Source)> = names.zip(&self.sources).collect();
        let mut cautions = describe_differences(&named);
        cautions.extend(describe_shortfalls(&named, |_, _| true));
        if let Some(comparison) = &self.comparison {
            cautions.extend(describe_mixed_scopes_of_machines(
                &self.sources,
                &comparison.machines,
            ));
        }
        cautions
    }

    /// The unit of the view's metric number `metric`.
    pub(super) fn page_unit_of_metric(&self, metric: usize) -> Option<&Unit> {
        self.units.get(metric)
    }

    /// The focus of a question with a goal, whose answer is `winner`; `None` if the page does not have the metric.
    pub(super) fn focus_on_goal_question(
        &self,
        view: &View,
        question: &Question,
        winner: Option<&usize>,
    ) -> Option<Focus> {
        let limits = question.keep.iter().filter_map(|condition| {
            let metric = metric_index(view, &condition.metric)?;
            Some(Limit {
                metric,
                value: condition.limit * self.units.get(metric)?.factor,
                is_upper: condition.below,
            })
        });
        Some(Focus {
            metric: metric_index(view, &question.metric)?,
            limits: limits.collect(),
            winner: winner.copied(),
        })
    }

    /// Rows of a comparison as the page shows them, sorted by workload, metric and policy.
    fn rows_for_page(&self, view: &View, rows: &[results::Row]) -> Vec<PageRow> {
        let placed = rows.iter().filter_map(|row| {
            let load = row.load.to_string();
            let workload = view.workloads.iter().position(|w| w.name == load)?;
            let metric = view.metrics.iter().position(|m| m.name == row.metric)?;
            let policy = *self.policies.get(&row.policy)?;
            let unit = self.units.get(metric)?;
            Some(row_for_page(row, [workload, metric, policy], unit))
        });
        let mut page_rows: Vec<PageRow> = placed.collect();
        page_rows.sort_by_key(|r| (r.workload, r.metric, r.policy));
        page_rows
    }

    /// Answers a question with a goal from result number `index`, with the page's policy names.
    pub(super) fn answer_goal_question(
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
    pub(super) fn compare_for_question(
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
            Ok(comparison) => Ok(self.rows_for_page(view, &comparison.rows)),
            Err(CompareError::Nothing) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn metric_index(view: &View, name: &str) -> Option<usize> {
    view.metrics.iter().position(|metric| metric.name == name)
}

/// Assumed figures of all machines that runs were simulated or replayed on, each description once.
fn count_assumed_figures_once_per_machine_text(sources: &[Source]) -> usize {
    let modelled = sources
        .iter()
        .filter(|source| matches!(source.document.backend, RunOrigin::Sim | RunOrigin::Replay));
    let descriptions: BTreeSet<&String> = modelled
        .flat_map(|source| {
            let machines = source.document.machines.iter();
            machines.filter_map(|machine| source.files.get(&machine.source))
        })
        .collect();
    descriptions
        .into_iter()
        .map(|text| count_assumed_figures(text))
        .sum()
}

fn describe_metric_for_page(metric: &Metric, unit: &Unit) -> view::PageMetric {
    view::PageMetric {
        name: metric.name.to_string(),
        title: metric.title.to_string(),
        unit: unit.name.clone(),
        factor: unit.factor,
        meaning: metric.meaning.to_string(),
        higher_is_better: match metric.better {
            Better::Higher => Some(true),
            Better::Lower => Some(false),
            Better::Neither => None,
        },
    }
}

/// A row of a comparison in the page's units.
fn row_for_page(
    row: &results::Row,
    [workload, metric, policy]: [usize; 3],
    unit: &Unit,
) -> PageRow {
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
