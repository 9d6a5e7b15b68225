//! Curves over the load: a metric at each requested rate, a line per policy.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::number::{
    format_four_significant_digits, format_with_decimals_or_four_digits,
    round_to_five_digits_or_null as number,
};
use super::super::view::{LoadSeries, PageMetric, PageRow, View};
use super::figure::{
    Choice, Figure, Table, build_alternative_text, first_question_limits_for_chart, policy_name,
};

/// Figures by metric, policy and workload.
type Rows<'a> = BTreeMap<(usize, usize, usize), &'a PageRow>;

/// Draws all series over the load; `None` without series, or without figures of their workloads.
pub(crate) fn draw_load_curves(view: &View) -> Option<Figure> {
    let series: Vec<&LoadSeries> = view
        .load_series
        .iter()
        .filter(|series| series.points.len() > 1)
        .collect();
    let rows: Rows<'_> = view
        .rows
        .iter()
        .filter(|row| {
            series
                .iter()
                .any(|series| has_workload(series, row.workload))
        })
        .map(|row| ((row.metric, row.policy, row.workload), row))
        .collect();
    let order = view.order_metrics_by_first_question().into_iter();
    let metrics: Vec<usize> = order
        .filter(|metric| rows.keys().any(|(measured, ..)| measured == metric))
        .collect();
    let first = *metrics.first()?;
    Some(Figure {
        id: "load".into(),
        kind: "load",
        title: "Over the load".into(),
        note: "Each point is a workload of the study: the rate that it asks for, and the mean over its runs.".into(),
        alt: build_alternative_text(
            &format!("Lines of {} over the requested rate, one line per policy.", title_with_unit(view, first)),
            series.iter().map(|series| describe_range_of_rates(view, series, first)),
        ),
        choices: vec![
            Choice {
                key: "metric",
                label: "Metric",
                options: metrics.iter().map(|m| (m.to_string(), view.metrics[*m].title.clone())).collect(),
            },
            Choice {
                key: "series",
                label: "Workload",
                options: series.iter().enumerate().map(|(i, series)| (i.to_string(), series.name.clone())).collect(),
            },
        ],
        table: load_table(view, &series, &metrics, &rows),
        data: json!({
            "first": first,
            "metrics": metrics.iter().map(|metric| json!({
                "index": metric,
                "title": title_with_unit(view, *metric),
                "limits": first_question_limits_for_chart(view, *metric),
            })).collect::<Vec<_>>(),
            "series": series.iter().map(|series| load_series_for_chart(series, &rows)).collect::<Vec<_>>(),
        }),
    })
}

fn has_workload(series: &LoadSeries, workload: usize) -> bool {
    series.points.iter().any(|(_, index)| *index == workload)
}

fn title_with_unit(view: &View, metric: usize) -> String {
    let PageMetric { title, unit, .. } = &view.metrics[metric];
    if unit.is_empty() {
        title.clone()
    } else {
        format!("{title}, {unit}")
    }
}

/// The rates of a series in words.
fn describe_range_of_rates(view: &View, series: &LoadSeries, metric: usize) -> String {
    let ends = [series.points.first(), series.points.last()];
    let [low, high] =
        ends.map(|point| point.map_or_else(String::new, |p| format_four_significant_digits(p.0)));
    format!(
        "{}: {} from {low} to {high} {} per s",
        series.name, view.metrics[metric].title, series.unit
    )
}

fn load_table(view: &View, series: &[&LoadSeries], metrics: &[usize], rows: &Rows<'_>) -> Table {
    let head = ["workload", "policy", "metric", "rate per s", "mean"];
    let mut table = Table::with_head(3, head);
    for series in series {
        for metric in metrics {
            for (policy, _) in view.policies_without_subset_lines() {
                for (rate, workload) in &series.points {
                    let Some(row) = rows.get(&(*metric, policy, *workload)) else {
                        continue;
                    };
                    table.add_row([
                        series.name.clone(),
                        policy_name(view, policy).to_owned(),
                        title_with_unit(view, *metric),
                        format_four_significant_digits(*rate),
                        format_with_decimals_or_four_digits(row.mean, row.decimals),
                    ]);
                }
            }
        }
    }
    table
}

/// A series for `charts.js`: rates, and a line of means per metric and policy.
fn load_series_for_chart(series: &LoadSeries, rows: &Rows<'_>) -> Value {
    let of_series = rows
        .keys()
        .filter(|(.., workload)| has_workload(series, *workload));
    let keys: BTreeSet<(usize, usize)> = of_series
        .map(|(metric, policy, _)| (*metric, *policy))
        .collect();
    let lines = keys.into_iter().map(|(metric, policy)| {
        let means = series.points.iter().map(|(_, workload)| {
            let row = rows.get(&(metric, policy, *workload));
            row.map_or(Value::Null, |row| number(row.mean))
        });
        json!({"metric": metric, "policy": policy, "means": means.collect::<Vec<_>>()})
    });
    json!({
        "name": series.name,
        "unit": format!("{} per s", series.unit),
        "rates": series.points.iter().map(|(rate, _)| number(*rate)).collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
    })
}
