//! Power against latency, with the Pareto front.

use serde_json::{Value, json};

use super::super::number::{format_four_digits, round_for_json as number};
use super::super::view::{PageMetric, PageWorkload, Tradeoff, View};
use super::figure::{
    Choice, Figure, Table, build_alternative_text, capitalise, distinct, limits_for_chart,
    policy_name,
};

/// Points of power against latency by one latency metric.
struct LatencyAxis<'a> {
    /// Index of the metric in the view.
    index: usize,
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
        title: format!(
            "{} against latency, {} and {}",
            capitalise(&power.title),
            power.unit,
            axes.first()?.metric.unit
        ),
        note: tradeoff_note(view, power),
        alt: build_alternative_text(
            "Scatter plot of power against latency, one point per policy;",
            axes.iter().map(|axis| name_policies_on_front(view, axis)),
        ),
        choices: vec![Choice {
            key: "metric",
            label: "Latency",
            options: choices
                .map(|(i, axis)| (i.to_string(), axis.metric.title.clone()))
                .collect(),
        }],
        table: point_table(view, power, &axes),
        data: json!({
            "y": with_unit(power),
            "limits": limits_for_chart(view, first.power_metric),
            "metrics": axes.iter().map(|axis| latency_axis_for_chart(view, axis)).collect::<Vec<_>>(),
        }),
    })
}

/// Points by latency metric, those of the first question first.
fn latency_axes<'a>(view: &'a View, points: &'a [Tradeoff]) -> Vec<LatencyAxis<'a>> {
    let order = view.metrics_by_interest().into_iter();
    let metrics = order.filter(|metric| points.iter().any(|p| p.latency_metric == *metric));
    let axes = metrics.filter_map(|index| {
        let on_axis = points.iter().filter(|p| p.latency_metric == index);
        Some(LatencyAxis {
            index,
            metric: view.metrics.get(index)?,
            points: on_axis.collect(),
        })
    });
    axes.collect()
}

fn tradeoff_note(view: &View, power: &PageMetric) -> String {
    let limits = view.focus.as_ref().map_or(0, |focus| focus.limits.len());
    format!(
        "Down and left is better. The line joins the policies of the Pareto front: none of the others has less of both. \
         Thin bars go from the lowest to the highest run.{}{}",
        if limits > 0 {
            " Shaded: what the question allows. The chosen policy has a ring."
        } else {
            ""
        },
        if view.is_assumed(power) {
            " The power is modelled with assumed figures of the machine."
        } else {
            ""
        }
    )
}

/// Names of the policies on the Pareto front of a latency metric, in a clause.
fn name_policies_on_front(view: &View, axis: &LatencyAxis<'_>) -> String {
    let front = axis.points.iter().filter(|p| p.front);
    let names = distinct(front.map(|p| policy_name(view, p.policy)));
    format!(
        "on the Pareto front by {}: {}",
        axis.metric.title,
        names.join(", ")
    )
}

fn point_table(view: &View, power: &PageMetric, axes: &[LatencyAxis<'_>]) -> Table {
    let mut table = Table::with_head(
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
            row.extend(point.latency.values().map(format_four_digits));
            row.extend(point.power.values().map(format_four_digits));
            row.push(if point.front { "yes" } else { "no" }.into());
            table.add_row(row);
        }
    }
    table
}

/// The points of a latency metric as `charts.js` draws them.
fn latency_axis_for_chart(view: &View, axis: &LatencyAxis<'_>) -> Value {
    let winner = view.focus.as_ref().and_then(|focus| focus.winner);
    let points = axis.points.iter().map(|p| {
        json!({
            "policy": p.policy,
            "x": p.latency.values().map(number),
            "y": p.power.values().map(number),
            "front": p.front,
            "winner": winner == Some(p.policy),
        })
    });
    json!({
        "title": with_unit(axis.metric),
        "limits": limits_for_chart(view, axis.index),
        "points": points.collect::<Vec<_>>(),
    })
}

fn with_unit(metric: &PageMetric) -> String {
    format!("{}, {}", metric.title, metric.unit)
}
