//! The comparison as tables: one per workload, a row per policy, a column per metric.

use std::collections::BTreeMap;

use serde::Serialize;

use super::number::{
    format_four_significant_digits, format_signed_percent, format_signed_percents,
    format_with_decimals_or_four_digits,
};
use super::view::{PageMetric, PageRow, Tone, View};

/// A workload's comparison.
#[derive(Debug, Serialize)]
pub(crate) struct ComparisonTable {
    workload: String,
    columns: Vec<Column>,
    lines: Vec<PolicyLine>,
    /// Metrics with the same figure under every policy: `IOPS 20 000`.
    same: Vec<String>,
}

/// A metric as a column's head.
#[derive(Debug, Serialize)]
struct Column {
    title: String,
    unit: String,
    direction: &'static str,
    /// Whether the figures rest on assumed power of the machine.
    assumed: bool,
}

/// A policy's figures on a workload.
#[derive(Debug, Serialize)]
struct PolicyLine {
    policy: String,
    baseline: bool,
    /// Whether the first answer chooses the policy.
    winner: bool,
    /// Further policies with the same figures.
    equals: Vec<String>,
    /// What a simulation of the policies in this line assumes or leaves out.
    notes: Vec<String>,
    cells: Vec<Cell>,
}

/// A policy's figure in a metric; empty where the results have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Cell {
    mean: String,
    /// The mean for sorting; absent where there is no number.
    number: Option<f64>,
    deviation: String,
    gain: String,
    class: &'static str,
    verdict: String,
}

/// A comparison in words.
#[derive(Debug, Serialize)]
pub(crate) struct Sentence {
    workload: String,
    metric: String,
    policy: String,
    runs: usize,
    mean: String,
    deviation: String,
    gain: String,
    interval: String,
    effect: String,
    verdict: String,
    class: &'static str,
    sign: &'static str,
    warnings: String,
}

/// A table per workload. Metrics of the first question come first; metrics without any figure are left out.
pub(crate) fn build_table_per_workload(view: &View) -> Vec<ComparisonTable> {
    let order = view.order_metrics_by_first_question();
    let blocks =
        (0..view.workloads.len()).map(|index| build_table_of_workload(view, index, &order));
    blocks.filter(|block| !block.lines.is_empty()).collect()
}

fn build_table_of_workload(view: &View, workload: usize, order: &[usize]) -> ComparisonTable {
    let rows: Vec<&PageRow> = view
        .rows
        .iter()
        .filter(|row| row.workload == workload)
        .collect();
    let measured = order
        .iter()
        .filter(|metric| rows.iter().any(|row| row.metric == **metric));
    let (same, different): (Vec<usize>, Vec<usize>) =
        measured.partition(|metric| shows_same_figure_under_all_policies(&rows, **metric));
    // With nothing but equal figures there would be no table.
    let (shown, same) = if different.is_empty() {
        (same, Vec::new())
    } else {
        (different, same)
    };
    ComparisonTable {
        workload: view.workloads[workload].name.clone(),
        columns: shown
            .iter()
            .map(|metric| build_column_of_metric(view, &view.metrics[*metric]))
            .collect(),
        lines: build_lines_merging_equal_policies(view, &rows, &shown),
        same: same
            .iter()
            .filter_map(|metric| format_figure_shared_by_all(view, &rows, *metric))
            .collect(),
    }
}

/// Whether several policies have a metric and all show the same figure, so that a column would say nothing.
fn shows_same_figure_under_all_policies(rows: &[&PageRow], metric: usize) -> bool {
    let mut figures = rows.iter().filter(|row| row.metric == metric);
    let Some(first) = figures.next() else {
        return false;
    };
    let shown = format_with_decimals_or_four_digits(first.mean, first.decimals);
    let others: Vec<&&PageRow> = figures.collect();
    !others.is_empty()
        && others.iter().all(|row| {
            let significant = row.gain.is_some_and(|gain| gain.significant);
            !significant && format_with_decimals_or_four_digits(row.mean, row.decimals) == shown
        })
}

/// A metric's common figure in words.
fn format_figure_shared_by_all(view: &View, rows: &[&PageRow], metric: usize) -> Option<String> {
    let row = rows.iter().find(|row| row.metric == metric)?;
    let about = &view.metrics[metric];
    let figure = format_with_decimals_or_four_digits(row.mean, row.decimals);
    Some(
        format!("{} {figure} {}", about.title, about.unit)
            .trim_end()
            .to_owned(),
    )
}

fn build_column_of_metric(view: &View, metric: &PageMetric) -> Column {
    Column {
        title: metric.title.clone(),
        unit: metric.unit.clone(),
        direction: match metric.higher_is_better {
            Some(true) => "more is better",
            Some(false) => "less is better",
            None => "neither is better",
        },
        assumed: view.rests_on_assumed_power(metric),
    }
}

/// A line per policy that has figures. Policies whose means are equal in all metrics share the line of the first.
fn build_lines_merging_equal_policies(
    view: &View,
    rows: &[&PageRow],
    metrics: &[usize],
) -> Vec<PolicyLine> {
    let winner = view.focus.as_ref().and_then(|focus| focus.winner);
    let figures: BTreeMap<(usize, usize), &PageRow> = rows
        .iter()
        .map(|row| ((row.policy, row.metric), *row))
        .collect();
    let mut lines: Vec<PolicyLine> = Vec::new();
    let common = notes_that_all_compared_policies_share(view);
    for (index, policy) in view.policies_without_subset_lines() {
        let own_notes = policy.notes.iter().filter(|note| !common.contains(note));
        let cells: Vec<Cell> = metrics
            .iter()
            .map(|metric| {
                let row = figures.get(&(index, *metric));
                row.map_or_else(Cell::default, |row| format_row_as_cell(row))
            })
            .collect();
        if cells.iter().all(|cell| cell.mean.is_empty()) {
            continue;
        }
        // A baseline has no gains, so its line stays its own.
        let equal = lines.iter_mut().find(|line| {
            !line.baseline
                && !policy.baseline
                && have_equal_means_in_all_metrics(&line.cells, &cells)
        });
        match equal {
            Some(line) => {
                line.equals.push(policy.name.clone());
                line.winner |= winner == Some(index);
                for note in own_notes {
                    if !line.notes.contains(note) {
                        line.notes.push(note.clone());
                    }
                }
            }
            None => lines.push(PolicyLine {
                policy: policy.name.clone(),
                baseline: policy.baseline,
                winner: winner == Some(index),
                equals: Vec::new(),
                notes: own_notes.cloned().collect(),
                cells,
            }),
        }
    }
    lines
}

/// Notes that every compared policy has: said once above the tables, not beside each policy.
pub(crate) fn notes_that_all_compared_policies_share(view: &View) -> Vec<&String> {
    let mut policies = view
        .policies_without_subset_lines()
        .map(|(_, policy)| policy);
    let first = policies.next().filter(|_| view.policies.len() > 1);
    let others: Vec<_> = policies.collect();
    let notes = first.into_iter().flat_map(|policy| &policy.notes);
    notes
        .filter(|note| others.iter().all(|policy| policy.notes.contains(note)))
        .collect()
}

/// Whether two policies have equal means in every metric, to the last bit: their settings made no difference.
fn have_equal_means_in_all_metrics(some: &[Cell], others: &[Cell]) -> bool {
    let mut pairs = some.iter().zip(others);
    pairs.all(|(one, other)| one.number == other.number && one.mean == other.mean)
}

fn format_row_as_cell(row: &PageRow) -> Cell {
    let significant = row.gain.is_some_and(|g| g.significant);
    Cell {
        mean: format_with_decimals_or_four_digits(row.mean, row.decimals),
        number: Some(row.mean).filter(|mean| mean.is_finite()),
        deviation: format_deviation_percent(row),
        gain: row.gain.map_or_else(String::new, |g| {
            format!(
                "{}{}",
                format_signed_percent(g.percent, g.interval),
                if significant { " *" } else { "" }
            )
        }),
        class: match row.tone {
            Tone::Better | Tone::Worse if significant => row.tone.css_class(),
            _ => "",
        },
        verdict: row.verdict.clone(),
    }
}

fn format_deviation_percent(row: &PageRow) -> String {
    row.deviation_percent
        .map_or_else(String::new, |d| format!("±{d:.1} %"))
}

/// Every comparison as a sentence.
pub(crate) fn format_rows_as_sentences(view: &View) -> Vec<Sentence> {
    let rows = view.rows.iter();
    rows.map(|row| format_row_as_sentence(view, row)).collect()
}

fn format_row_as_sentence(view: &View, row: &PageRow) -> Sentence {
    let workload = view.workloads.get(row.workload);
    let metric = view.metrics.get(row.metric);
    let policy = view.policies.get(row.policy);
    Sentence {
        workload: workload.map(|w| w.name.clone()).unwrap_or_default(),
        metric: metric.map(|m| m.title.clone()).unwrap_or_default(),
        policy: policy.map(|p| p.name.clone()).unwrap_or_default(),
        runs: row.runs,
        mean: format_with_decimals_or_four_digits(row.mean, row.decimals),
        deviation: format_deviation_percent(row),
        gain: row.gain.map_or_else(String::new, |g| {
            format_signed_percent(g.percent, g.interval)
        }),
        interval: row
            .gain
            .and_then(|g| g.interval)
            .map_or_else(String::new, |ends| {
                format_signed_percents(ends, Some(ends)).join(" to ")
            }),
        effect: row
            .gain
            .and_then(|g| g.effect)
            .map_or_else(String::new, format_four_significant_digits),
        verdict: row.verdict.clone(),
        class: row.tone.css_class(),
        sign: if row.verdict.is_empty() {
            ""
        } else {
            row.tone.sign()
        },
        warnings: row.warnings.join("; "),
    }
}
