//! Parts of a request's latency, mean and percentiles beside each other.

use serde_json::json;

use super::super::number::{
    format_four_significant_digits, format_share_as_percent, round_to_five_digits_or_null as number,
};
use super::super::view::{PageParts, PageWorkload, View};
use super::figure::{
    Choice, Figure, Table, build_alternative_text, distinct, format_microseconds, policy_name,
};

pub(super) fn draw_parts(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all = &workload.parts;
    let names = distinct(
        all.iter()
            .flat_map(|p| p.parts.iter().map(|(name, _)| name.as_str())),
    );
    if names.is_empty() {
        return None;
    }
    let at = distinct(all.iter().map(|p| p.at.as_str()));
    let mut table = Table::with_head(
        2,
        ["policy".to_owned(), "requests".into(), "sum, us".into()]
            .into_iter()
            .chain(names.iter().map(|n| format!("{n}, us"))),
    );
    for latency in all {
        let mut row = vec![
            policy_name(view, latency.policy).to_owned(),
            latency.at.clone(),
            format_four_significant_digits(sum_of_parts_us(latency)),
        ];
        let values = names.iter().map(|name| find_part_us(latency, name));
        row.extend(values.map(|value| value.map_or("–".into(), format_four_significant_digits)));
        table.add_row(row);
    }
    Some(Figure {
        id: String::new(),
        kind: "parts",
        title: "Where a request's time goes, us".into(),
        note: format!(
            "From the system call on the left to its return on the right, averaged over all requests (mean) and over those \
             about the percentile. The parts add up to the latency.{}",
            if workload.timelines.is_empty() {
                ""
            } else {
                " Click a bar, or press Enter on it, to see such a request in the timeline."
            }
        ),
        alt: build_alternative_text(
            "Stacked bars of the parts of a request's latency, per policy, mean and percentiles beside each other.",
            all.iter()
                .filter(|p| p.at == "mean" || p.at == "p99")
                .map(|p| describe_largest_part(view, p)),
        ),
        choices: vec![Choice {
            key: "unit",
            label: "Show",
            options: vec![
                ("us".into(), "Time".into()),
                ("share".into(), "Share".into()),
            ],
        }],
        table,
        data: json!({
            "names": names,
            "timelines": !workload.timelines.is_empty(),
            "at": at,
            "rows": all.iter().map(|latency| json!({
                "policy": latency.policy,
                "at": at.iter().position(|a| *a == latency.at),
                "values": names.iter().map(|n| find_part_us(latency, n).map(number)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }),
    })
}

fn sum_of_parts_us(latency: &PageParts) -> f64 {
    latency.parts.iter().map(|(_, us)| us).sum()
}

fn find_part_us(latency: &PageParts, name: &str) -> Option<f64> {
    let part = latency.parts.iter().find(|(part, _)| part == name);
    part.map(|(_, us)| *us)
}

/// A latency with its largest part, in words.
fn describe_largest_part(view: &View, latency: &PageParts) -> String {
    let parts = latency.parts.iter();
    let largest = parts.max_by(|a, b| a.1.total_cmp(&b.1));
    let most = largest.map_or(String::new(), |(name, us)| {
        format!(
            ", most of it {name} ({})",
            format_share_as_percent(us / sum_of_parts_us(latency))
        )
    });
    format!(
        "{} {}: {}{most}",
        policy_name(view, latency.policy),
        latency.at,
        format_microseconds(sum_of_parts_us(latency))
    )
}
