//! Gains over the baseline with intervals, on all workloads.

use serde_json::{Value, json};

use super::super::number::{format_percent, format_percents, json_number as number};
use super::super::view::{PageRow, View};
use super::figure::{Choice, Figure, Table, alt_text, policy_name};

pub(crate) fn draw_gains(view: &View) -> Option<Figure> {
    let rows: Vec<&PageRow> = view.rows.iter().filter(|r| r.gain.is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let mut metrics: Vec<usize> = rows.iter().map(|r| r.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let of_first_metric = rows.iter().filter(|r| Some(&r.metric) == metrics.first());
    Some(Figure {
        id: "gains".into(),
        kind: "gains",
        title: format!("Gain over {}, %", view.baseline_name()),
        note: "Right of the line is better. The bar is the confidence interval; a hollow mark means that chance may explain \
               the difference."
            .into(),
        alt: alt_text(
            "Gain of each policy over the baseline with its confidence interval, per workload.",
            of_first_metric.map(|row| alt_clause(view, row)),
        ),
        choices: vec![Choice {
            key: "metric",
            label: "Metric",
            options: metrics.iter().map(|m| (m.to_string(), metric_title(view, *m).to_owned())).collect(),
        }],
        table: gain_table(view, &rows),
        data: json!({
            "workloads": view.workloads.iter().map(|w| &w.name).collect::<Vec<_>>(),
            "rows": rows.iter().filter_map(|row| row_data(row)).collect::<Vec<_>>(),
        }),
    })
}

/// A gain in words.
fn alt_clause(view: &View, row: &PageRow) -> String {
    format!(
        "{}, {} under {}: {}",
        workload_name(view, row.workload),
        metric_title(view, row.metric),
        policy_name(view, row.policy),
        row.gain
            .map_or_else(String::new, |g| format_percent(g.percent, g.interval))
    )
}

fn gain_table(view: &View, rows: &[&PageRow]) -> Table {
    let mut table = Table::new(
        3,
        [
            "workload",
            "metric",
            "policy",
            "gain",
            "from",
            "to",
            "significant",
        ],
    );
    for row in rows {
        let Some(gain) = row.gain else { continue };
        let [from, to] = gain.interval.map_or(["–".into(), "–".into()], |ends| {
            format_percents(ends, Some(ends))
        });
        table.add_row([
            workload_name(view, row.workload).to_owned(),
            metric_title(view, row.metric).to_owned(),
            policy_name(view, row.policy).to_owned(),
            format_percent(gain.percent, gain.interval),
            from,
            to,
            if gain.significant { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

/// A row for `charts.js`; `None` without a gain.
fn row_data(row: &PageRow) -> Option<Value> {
    let gain = row.gain?;
    Some(json!({
        "metric": row.metric,
        "workload": row.workload,
        "policy": row.policy,
        "gain": number(gain.percent),
        "interval": gain.interval.map(|i| i.map(number)),
        "significant": gain.significant,
        "verdict": row.verdict,
    }))
}

fn metric_title(view: &View, index: usize) -> &str {
    view.metrics.get(index).map_or("?", |m| m.title.as_str())
}

fn workload_name(view: &View, index: usize) -> &str {
    view.workloads.get(index).map_or("?", |w| w.name.as_str())
}
