//! The comparison as a table: a line per workload and metric, a column per policy.

use serde::Serialize;

use super::number::{format_figure, format_percent, format_percents, short_number};
use super::view::{PageRow, Tone, View};

/// A workload's comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Block {
    workload: String,
    lines: Vec<Line>,
}

/// A metric.
#[derive(Debug, Serialize)]
struct Line {
    title: String,
    unit: String,
    direction: &'static str,
    cells: Vec<Cell>,
}

/// A policy's figure.
#[derive(Debug, Default, Serialize)]
struct Cell {
    mean: String,
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

/// The comparison in a block per workload, with the metrics that any policy has.
pub(crate) fn comparison_blocks(view: &View) -> Vec<Block> {
    let workloads = view.workloads.iter().enumerate();
    let blocks = workloads.map(|(index, workload)| Block {
        workload: workload.name.clone(),
        lines: (0..view.metrics.len())
            .filter_map(|metric| comparison_line(view, index, metric))
            .collect(),
    });
    blocks.filter(|block| !block.lines.is_empty()).collect()
}

/// A metric on a workload; none if no policy has the metric.
fn comparison_line(view: &View, workload: usize, metric: usize) -> Option<Line> {
    let rows: Vec<&PageRow> = view
        .rows
        .iter()
        .filter(|row| row.workload == workload && row.metric == metric)
        .collect();
    if rows.is_empty() {
        return None;
    }
    let about = &view.metrics[metric];
    let cells = view.compared_policies().map(|(policy, _)| {
        let row = rows.iter().find(|row| row.policy == policy);
        row.map_or_else(Cell::default, |row| comparison_cell(row))
    });
    Some(Line {
        title: about.title.clone(),
        unit: about.unit.clone(),
        direction: match about.higher_is_better {
            Some(true) => "more is better",
            Some(false) => "less is better",
            None => "neither is better",
        },
        cells: cells.collect(),
    })
}

fn comparison_cell(row: &PageRow) -> Cell {
    let significant = row.gain.is_some_and(|g| g.significant);
    Cell {
        mean: format_figure(row.mean, row.decimals),
        deviation: deviation_text(row),
        gain: row.gain.map_or_else(String::new, |g| {
            format!(
                "{}{}",
                format_percent(g.percent, g.interval),
                if significant { " *" } else { "" }
            )
        }),
        class: match row.tone {
            Tone::Better | Tone::Worse if significant => row.tone.class(),
            _ => "",
        },
        verdict: row.verdict.clone(),
    }
}

fn deviation_text(row: &PageRow) -> String {
    row.deviation_percent
        .map_or_else(String::new, |d| format!("±{d:.1} %"))
}

/// Every comparison as a sentence.
pub(crate) fn verdict_sentences(view: &View) -> Vec<Sentence> {
    let rows = view.rows.iter();
    rows.map(|row| verdict_sentence(view, row)).collect()
}

fn verdict_sentence(view: &View, row: &PageRow) -> Sentence {
    let workload = view.workloads.get(row.workload);
    let metric = view.metrics.get(row.metric);
    let policy = view.policies.get(row.policy);
    Sentence {
        workload: workload.map(|w| w.name.clone()).unwrap_or_default(),
        metric: metric.map(|m| m.title.clone()).unwrap_or_default(),
        policy: policy.map(|p| p.name.clone()).unwrap_or_default(),
        runs: row.runs,
        mean: format_figure(row.mean, row.decimals),
        deviation: deviation_text(row),
        gain: row
            .gain
            .map_or_else(String::new, |g| format_percent(g.percent, g.interval)),
        interval: row
            .gain
            .and_then(|g| g.interval)
            .map_or_else(String::new, |ends| {
                format_percents(ends, Some(ends)).join(" to ")
            }),
        effect: row
            .gain
            .and_then(|g| g.effect)
            .map_or_else(String::new, short_number),
        verdict: row.verdict.clone(),
        class: row.tone.class(),
        sign: if row.verdict.is_empty() {
            ""
        } else {
            row.tone.sign()
        },
        warnings: row.warnings.join("; "),
    }
}
