//! The comparison as a table: a line per workload and metric, a column per policy.

use serde::Serialize;

use super::number::{figure, percent, percents, short};
use super::view::{PageRow, Tone, View};

/// The comparison of a workload.
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

/// What is said of a policy, in words.
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

/// The comparison in blocks, of those metrics that any policy has.
pub(crate) fn blocks(view: &View) -> Vec<Block> {
    let of_workload = |index: usize, workload: &super::view::PageWorkload| {
        let lines = view
            .metrics
            .iter()
            .enumerate()
            .filter_map(|(metric, about)| {
                let rows: Vec<&PageRow> = view
                    .rows
                    .iter()
                    .filter(|r| r.workload == index && r.metric == metric)
                    .collect();
                if rows.is_empty() {
                    return None;
                }
                let cell = |policy: usize| {
                    rows.iter()
                        .find(|r| r.policy == policy)
                        .map_or_else(Cell::default, |r| cell(r))
                };
                Some(Line {
                    title: about.title.clone(),
                    unit: about.unit.clone(),
                    direction: match about.higher_is_better {
                        Some(true) => "more is better",
                        Some(false) => "less is better",
                        None => "neither is better",
                    },
                    cells: (0..view.policies.len()).map(cell).collect(),
                })
            });
        Block {
            workload: workload.name.clone(),
            lines: lines.collect(),
        }
    };
    let blocks = view
        .workloads
        .iter()
        .enumerate()
        .map(|(i, w)| of_workload(i, w));
    blocks.filter(|b| !b.lines.is_empty()).collect()
}

fn cell(row: &PageRow) -> Cell {
    let significant = row.gain.is_some_and(|g| g.significant);
    Cell {
        mean: figure(row.mean, row.decimals),
        deviation: deviation(row),
        gain: row.gain.map_or_else(String::new, |g| {
            format!(
                "{}{}",
                percent(g.percent, g.interval),
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

fn deviation(row: &PageRow) -> String {
    row.deviation_percent
        .map_or_else(String::new, |d| format!("±{d:.1} %"))
}

/// Every comparison as a sentence.
pub(crate) fn sentences(view: &View) -> Vec<Sentence> {
    let name = |names: Option<&String>| names.cloned().unwrap_or_default();
    let sentence = |row: &PageRow| Sentence {
        workload: name(view.workloads.get(row.workload).map(|w| &w.name)),
        metric: name(view.metrics.get(row.metric).map(|m| &m.title)),
        policy: name(view.policies.get(row.policy).map(|p| &p.name)),
        runs: row.runs,
        mean: figure(row.mean, row.decimals),
        deviation: deviation(row),
        gain: row
            .gain
            .map_or_else(String::new, |g| percent(g.percent, g.interval)),
        interval: row
            .gain
            .and_then(|g| g.interval)
            .map_or_else(String::new, |ends| percents(ends, Some(ends)).join(" to ")),
        effect: row
            .gain
            .and_then(|g| g.effect)
            .map_or_else(String::new, short),
        verdict: row.verdict.clone(),
        class: row.tone.class(),
        sign: if row.verdict.is_empty() {
            ""
        } else {
            row.tone.sign()
        },
        warnings: row.warnings.join("; "),
    };
    view.rows.iter().map(sentence).collect()
}
