//! Gains over the baseline with intervals, on all workloads.

use serde_json::json;

use super::super::number::{json as number, percent, percents};
use super::super::view::{PageRow, View};
use super::figure::{Choice, Figure, Table, alt, policy_name};

pub(crate) fn gains(view: &View) -> Option<Figure> {
    let rows: Vec<&PageRow> = view.rows.iter().filter(|r| r.gain.is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let mut metrics: Vec<usize> = rows.iter().map(|r| r.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
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
    for row in &rows {
        let Some(gain) = row.gain else { continue };
        let [from, to] = gain.interval.map_or(["–".into(), "–".into()], |ends| {
            percents(ends, Some(ends))
        });
        table.row([
            workload_name(view, row.workload).to_owned(),
            metric_title(view, row.metric).to_owned(),
            policy_name(view, row.policy).to_owned(),
            percent(gain.percent, gain.interval),
            from,
            to,
            if gain.significant { "yes" } else { "no" }.into(),
        ]);
    }
    let baseline = view.baseline_name();
    Some(Figure {
        id: "gains".into(),
        kind: "gains",
        title: format!("Gain over {baseline}, %"),
        note: "Right of the line is better. The bar is the confidence interval; a hollow mark means that chance may explain \
               the difference."
            .into(),
        alt: alt(
            "Gain of each policy over the baseline with its confidence interval, per workload.",
            rows.iter().filter(|r| Some(&r.metric) == metrics.first()).map(|r| {
                format!(
                    "{}, {} under {}: {}",
                    workload_name(view, r.workload),
                    metric_title(view, r.metric),
                    policy_name(view, r.policy),
                    r.gain.map_or_else(String::new, |g| percent(g.percent, g.interval))
                )
            }),
        ),
        choices: vec![Choice {
            key: "metric",
            label: "Metric",
            options: metrics.iter().map(|m| (m.to_string(), metric_title(view, *m).to_owned())).collect(),
        }],
        table,
        data: json!({
            "workloads": view.workloads.iter().map(|w| &w.name).collect::<Vec<_>>(),
            "rows": rows.iter().filter_map(|row| {
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
            }).collect::<Vec<_>>(),
        }),
    })
}

fn metric_title(view: &View, index: usize) -> &str {
    view.metrics.get(index).map_or("?", |m| m.title.as_str())
}

fn workload_name(view: &View, index: usize) -> &str {
    view.workloads.get(index).map_or("?", |w| w.name.as_str())
}
