//! Where a request's time goes: the parts of its latency, the mean and the 99th percentile beside each other.

use serde_json::json;

use super::super::number::{json as number, share, short};
use super::super::view::{PageParts, PageWorkload, View};
use super::{Choice, Figure, Table, alt, distinct, policy_name, us};

pub(super) fn parts(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all = &workload.parts;
    let names = distinct(
        all.iter()
            .flat_map(|p| p.parts.iter().map(|(name, _)| name.as_str())),
    );
    if names.is_empty() {
        return None;
    }
    let at = distinct(all.iter().map(|p| p.at.as_str()));
    let total = |of: &PageParts| of.parts.iter().map(|(_, us)| us).sum::<f64>();
    let value =
        |of: &PageParts, name: &str| of.parts.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    let mut table = Table::new(
        2,
        ["policy".to_owned(), "requests".into(), "sum, us".into()]
            .into_iter()
            .chain(names.iter().map(|n| format!("{n}, us"))),
    );
    for of in all {
        let mut row = vec![
            policy_name(view, of.policy).to_owned(),
            of.at.clone(),
            short(total(of)),
        ];
        row.extend(
            names
                .iter()
                .map(|name| value(of, name).map_or("–".into(), short)),
        );
        table.row(row);
    }
    let clause = |of: &PageParts| {
        let largest = of.parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let largest = largest.map_or(String::new(), |(name, us)| {
            format!(", most of it {name} ({})", share(us / total(of)))
        });
        format!(
            "{} {}: {}{largest}",
            policy_name(view, of.policy),
            of.at,
            us(total(of))
        )
    };
    Some(Figure {
        id: String::new(),
        kind: "parts",
        title: "Where a request's time goes, us".into(),
        note: "From the system call on the left to its return on the right, averaged over all requests (mean) and over those \
               about the percentile. The parts add up to the latency."
            .into(),
        alt: alt(
            "Stacked bars of the parts of a request's latency, per policy, mean and percentiles beside each other.",
            all.iter().filter(|p| p.at == "mean" || p.at == "p99").map(clause),
        ),
        choices: vec![Choice {
            key: "unit",
            label: "Show",
            options: vec![("us".into(), "Time".into()), ("share".into(), "Share".into())],
        }],
        table,
        data: json!({
            "names": names,
            "at": at,
            "rows": all.iter().map(|of| json!({
                "policy": of.policy,
                "at": at.iter().position(|a| *a == of.at),
                "values": names.iter().map(|n| value(of, n).map(number)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }),
    })
}
