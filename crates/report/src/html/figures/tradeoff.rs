//! Power against latency, with the Pareto front.

use serde_json::json;

use super::super::number::{json as number, short};
use super::super::view::{PageMetric, PageWorkload, Tradeoff, View};
use super::figure::{Choice, Figure, Table, alt, capital, distinct, policy_name};

pub(super) fn tradeoff(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all = &workload.tradeoff;
    let first = all.first()?;
    let power = view.metrics.get(first.power_metric)?;
    let mut metrics: Vec<usize> = all.iter().map(|t| t.latency_metric).collect();
    metrics.dedup();
    metrics.sort_unstable();
    metrics.dedup();
    let metrics: Vec<(usize, &PageMetric)> = metrics
        .into_iter()
        .filter_map(|m| Some((m, view.metrics.get(m)?)))
        .collect();
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
    let mut clauses = Vec::new();
    let mut data = Vec::new();
    for (index, metric) in &metrics {
        let points: Vec<&Tradeoff> = all.iter().filter(|t| t.latency_metric == *index).collect();
        for point in &points {
            let mut row = vec![
                policy_name(view, point.policy).to_owned(),
                with_unit(metric),
            ];
            row.extend(point.latency.values().map(short));
            row.extend(point.power.values().map(short));
            row.push(if point.front { "yes" } else { "no" }.into());
            table.row(row);
        }
        let on: Vec<&str> = points
            .iter()
            .filter(|p| p.front)
            .map(|p| policy_name(view, p.policy))
            .collect();
        clauses.push(format!(
            "on the Pareto front by {}: {}",
            metric.title,
            distinct(on).join(", ")
        ));
        data.push(json!({
            "title": with_unit(metric),
            "points": points.iter().map(|p| json!({
                "policy": p.policy,
                "x": p.latency.values().map(number),
                "y": p.power.values().map(number),
                "front": p.front,
            })).collect::<Vec<_>>(),
        }));
    }
    Some(Figure {
        id: String::new(),
        kind: "tradeoff",
        title: format!("{} against latency, {} and {}", capital(&power.title), power.unit, metrics.first()?.1.unit),
        note: "Down and left is better. The line joins the policies of the Pareto front: none of the others has less of both. \
               Thin bars go from the lowest to the highest run."
            .into(),
        alt: alt("Scatter plot of power against latency, one point per policy;", clauses),
        choices: vec![Choice {
            key: "metric",
            label: "Latency",
            options: metrics.iter().enumerate().map(|(i, (_, m))| (i.to_string(), m.title.clone())).collect(),
        }],
        table,
        data: json!({"y": with_unit(power), "metrics": data}),
    })
}

fn with_unit(metric: &PageMetric) -> String {
    format!("{}, {}", metric.title, metric.unit)
}
