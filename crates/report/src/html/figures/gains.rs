//! Gains over the baseline with intervals, on all workloads.

use serde_json::{Value, json};

use super::super::number::{
    format_signed_percent, format_signed_percents, round_to_five_digits_or_null as number,
};
use super::super::view::{PageRow, View};
use super::figure::{Choice, Figure, Table, build_alternative_text, policy_name};

pub(crate) fn draw_gains(view: &View) -> Option<Figure> {
    let rows: Vec<&PageRow> = view.rows.iter().filter(|r| r.gain.is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let metrics = metrics_with_nonzero_gain_or_all(view, &rows);
    let of_first_metric = rows.iter().filter(|r| Some(&r.metric) == metrics.first());
    Some(Figure {
        id: "gains".into(),
        kind: "gains",
        title: format!("Gain over {}, %", view.baseline_name_or_phrase()),
        note: explain_picture_of_gains(view, metrics.first().copied()),
        alt: build_alternative_text(
            "Gain of each policy over the baseline with its confidence interval, per workload.",
            of_first_metric.map(|row| describe_gain(view, row)),
        ),
        choices: vec![Choice {
            key: "metric",
            label: "Metric",
            options: metrics
                .iter()
                .map(|m| (m.to_string(), metric_title(view, *m).to_owned()))
                .collect(),
        }],
        table: gain_table(view, &rows),
        data: json!({
            "first": metrics.first(),
            "winner": view.focus.as_ref().and_then(|focus| focus.winner),
            "workloads": view.workloads.iter().map(|w| &w.name).collect::<Vec<_>>(),
            "rows": rows.iter().filter_map(|row| gain_for_chart(row)).collect::<Vec<_>>(),
        }),
    })
}

/// Metrics with gains, those of the first question first. A metric in which nothing differs, such as a fixed rate, is left
/// out unless all metrics are so.
fn metrics_with_nonzero_gain_or_all(view: &View, rows: &[&PageRow]) -> Vec<usize> {
    let order = view.order_metrics_by_first_question().into_iter();
    let measured: Vec<usize> = order
        .filter(|metric| rows.iter().any(|row| row.metric == *metric))
        .collect();
    let differing: Vec<usize> = measured
        .iter()
        .copied()
        .filter(|metric| has_nonzero_gain_or_loss(rows, *metric))
        .collect();
    if differing.is_empty() {
        measured
    } else {
        differing
    }
}

/// Whether any policy gains or loses in a metric on any workload.
fn has_nonzero_gain_or_loss(rows: &[&PageRow], metric: usize) -> bool {
    let mut gains = rows.iter().filter(|row| row.metric == metric);
    gains.any(|row| row.gain.is_some_and(|gain| gain.percent != 0.0))
}

fn explain_picture_of_gains(view: &View, metric: Option<usize>) -> String {
    let assumed = metric
        .and_then(|index| view.metrics.get(index))
        .filter(|metric| view.rests_on_assumed_power(metric));
    format!(
        "Right of the line is better. The bar is the confidence interval; a hollow mark means that chance may explain the \
         difference. The baseline: {}.{}",
        view.baselines_in_words(),
        if assumed.is_some() {
            " Power is modelled with assumed figures of the machine."
        } else {
            ""
        }
    )
}

/// A policy's gain in words, for the alternative text of the picture of gains.
fn describe_gain(view: &View, row: &PageRow) -> String {
    format!(
        "{}, {} under {}: {}",
        workload_name(view, row.workload),
        metric_title(view, row.metric),
        policy_name(view, row.policy),
        row.gain.map_or_else(String::new, |g| format_signed_percent(
            g.percent, g.interval
        ))
    )
}

fn gain_table(view: &View, rows: &[&PageRow]) -> Table {
    let mut table = Table::with_head(
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
            format_signed_percents(ends, Some(ends))
        });
        table.add_row([
            workload_name(view, row.workload).to_owned(),
            metric_title(view, row.metric).to_owned(),
            policy_name(view, row.policy).to_owned(),
            format_signed_percent(gain.percent, gain.interval),
            from,
            to,
            if gain.significant { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

/// A policy's gain on a workload as `charts.js` draws it; `None` without a gain.
fn gain_for_chart(row: &PageRow) -> Option<Value> {
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
