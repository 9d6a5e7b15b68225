//! Power against latency, with the Pareto front.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::number::{json_number as number, short_number};
use super::super::view::{PageMetric, PageWorkload, Tradeoff, View};
use super::figure::{Choice, Figure, Table, alt_text, capitalise, distinct, policy_name};

/// Points by one metric for latency.
struct LatencyAxis<'a> {
    metric: &'a PageMetric,
    points: Vec<&'a Tradeoff>,
}

pub(super) fn draw_tradeoff(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let first = workload.tradeoff.first()?;
    let power = view.metrics.get(first.power_metric)?;
    let axes = latency_axes(view, &workload.tradeoff);
    let choices = axes.iter().enumerate();
    Some(Figure {
        id: String::new(),
        kind: "tradeoff",
        title: format!("{} against latency, {} and {}", capitalise(&power.title), power.unit, axes.first()?.metric.unit),
        note: "Down and left is better. The line joins the policies of the Pareto front: none of the others has less of both. \
               Thin bars go from the lowest to the highest run."
            .into(),
        alt: alt_text(
            "Scatter plot of power against latency, one point per policy;",
            axes.iter().map(|axis| alt_clause(view, axis)),
        ),
        choices: vec![Choice {
            key: "metric",
            label: "Latency",
            options: choices.map(|(i, axis)| (i.to_string(), axis.metric.title.clone())).collect(),
        }],
        table: point_table(view, power, &axes),
        data: json!({"y": with_unit(power), "metrics": axes.iter().map(axis_data).collect::<Vec<_>>()}),
    })
}

/// Points by latency metric, in the order of the metrics.
fn latency_axes<'a>(view: &'a View, points: &'a [Tradeoff]) -> Vec<LatencyAxis<'a>> {
    let metrics: BTreeSet<usize> = points.iter().map(|point| point.latency_metric).collect();
    let axes = metrics.into_iter().filter_map(|index| {
        let on_axis = points.iter().filter(|p| p.latency_metric == index);
        Some(LatencyAxis {
            metric: view.metrics.get(index)?,
            points: on_axis.collect(),
        })
    });
    axes.collect()
}

/// Policies on the Pareto front, in words.
fn alt_clause(view: &View, axis: &LatencyAxis<'_>) -> String {
    let front = axis.points.iter().filter(|p| p.front);
    let names = distinct(front.map(|p| policy_name(view, p.policy)));
    format!(
        "on the Pareto front by {}: {}",
        axis.metric.title,
        names.join(", ")
    )
}

fn point_table(view: &View, power: &PageMetric, axes: &[LatencyAxis<'_>]) -> Table {
    let mut table = Table::new(
        2,
        ["policy", "latency", "value", "lowest run", "highest run"]
            .map(str::to_owned)
            .into_iter()
            .chain([
                with_unit(power),
                "lowest run".into(),
                "highest run".into(),
                "on the Pareto front".into(),
            ]),
    );
    for axis in axes {
        for point in &axis.points {
            let mut row = vec![
                policy_name(view, point.policy).to_owned(),
                with_unit(axis.metric),
            ];
            row.extend(point.latency.values().map(short_number));
            row.extend(point.power.values().map(short_number));
            row.push(if point.front { "yes" } else { "no" }.into());
            table.add_row(row);
        }
    }
    table
}

/// Points for `charts.js`.
fn axis_data(axis: &LatencyAxis<'_>) -> Value {
    let points = axis.points.iter().map(|p| {
        json!({
            "policy": p.policy,
            "x": p.latency.values().map(number),
            "y": p.power.values().map(number),
            "front": p.front,
        })
    });
    json!({"title": with_unit(axis.metric), "points": points.collect::<Vec<_>>()})
}

fn with_unit(metric: &PageMetric) -> String {
    format!("{}, {}", metric.title, metric.unit)
}
