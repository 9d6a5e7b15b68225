//! Power against latency, with the Pareto front.

use serde_json::{Value, json};

use super::super::number::{
    format_four_significant_digits, round_to_five_digits_or_null as number,
};
use super::super::view::{PageMetric, PageWorkload, Tradeoff, View};
use super::figure::{
    Choice, Figure, Table, build_alternative_text, capitalise, distinct,
    first_question_limits_for_chart, policy_name,
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
    let axes = group_points_by_latency_metric(view, &workload.tradeoff);
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
        note: explain_picture_of_tradeoff(view, power),
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
            "y": title_and_unit_of_metric(power),
            "limits": first_question_limits_for_chart(view, first.power_metric),
            "metrics": axes.iter().map(|axis| latency_axis_for_chart(view, axis)).collect::<Vec<_>>(),
        }),
    })
}

/// Points by latency metric, those of the first question first.
fn group_points_by_latency_metric<'a>(
    view: &'a View,
    points: &'a [Tradeoff],
) -> Vec<LatencyAxis<'a>> {
    let order = view.order_metrics_by_first_question().into_iter();
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

fn explain_picture_of_tradeoff(view: &View, power: &PageMetric) -> String {
    let limits = view.focus.as_ref().map_or(0, |focus| focus.limits.len());
    format!(
        "Down and left is better. The line joins the policies of the Pareto front: none of the others has less of both. \
         Thin bars go from the lowest to the highest run.{}{}",
        if limits > 0 {
            " Shaded: what the question allows. The chosen policy has a ring."
        } else {
            ""
        },
        if view.rests_on_assumed_power(power) {
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
                title_and_unit_of_metric(power),
                "lowest run".into(),
                "highest run".into(),
                "on the Pareto front".into(),
            ]),
    );
    for axis in axes {
        for point in &axis.points {
            let mut row = vec![
                policy_name(view, point.policy).to_owned(),
                title_and_unit_of_metric(axis.metric),
            ];
            row.extend(
                point
                    .latency
                    .mean_lowest_highest()
                    .map(format_four_significant_digits),
            );
            row.extend(
                point
                    .power
                    .mean_lowest_highest()
                    .map(format_four_significant_digits),
            );
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
            "x": p.latency.mean_lowest_highest().map(number),
            "y": p.power.mean_lowest_highest().map(number),
            "front": p.front,
            "winner": winner == Some(p.policy),
        })
    });
    json!({
        "title": title_and_unit_of_metric(axis.metric),
        "limits": first_question_limits_for_chart(view, axis.index),
        "points": points.collect::<Vec<_>>(),
    })
}

fn title_and_unit_of_metric(metric: &PageMetric) -> String {
    format!("{}, {}", metric.title, metric.unit)
}
