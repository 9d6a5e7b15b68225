//! Timelines: what CPUs, clocks, the drive and a request did in a few representative milliseconds.

use serde_json::json;

use super::super::number::{json as number, short};
use super::super::view::{PageSpan, PageTimeline, PageWorkload, View};
use super::{Choice, Figure, Table, alt, distinct, policy_name};

pub(super) fn timeline(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all: Vec<&PageTimeline> = workload
        .timelines
        .iter()
        .filter(|t| !t.spans.is_empty())
        .collect();
    if all.is_empty() {
        return None;
    }
    let names = distinct(
        all.iter()
            .flat_map(|t| t.spans.iter().map(|s| s.name.as_str())),
    );
    let mut table = Table::new(
        4,
        [
            "policy",
            "around",
            "track",
            "what",
            "times",
            "together, us",
            "longest, us",
        ],
    );
    for of in &all {
        for (index, track) in of.tracks.iter().enumerate() {
            let spans: Vec<&PageSpan> = of.spans.iter().filter(|s| s.track == index).collect();
            for name in distinct(spans.iter().map(|s| s.name.as_str())) {
                let lengths = || spans.iter().filter(|s| s.name == name).map(|s| s.length_ns);
                table.row([
                    policy_name(view, of.policy).to_owned(),
                    of.at.clone(),
                    track.clone(),
                    name.to_owned(),
                    lengths().count().to_string(),
                    short(lengths().fold(0, u64::saturating_add) as f64 / 1e3),
                    short(lengths().max().unwrap_or(0) as f64 / 1e3),
                ]);
            }
        }
    }
    let owners = distinct(
        all.iter()
            .flat_map(|t| t.spans.iter().map(|s| s.owner.as_str())),
    );
    let mut policies: Vec<usize> = all.iter().map(|t| t.policy).collect();
    policies.dedup();
    let at = distinct(all.iter().map(|t| t.at.as_str()));
    let data = all.iter().map(|of| {
        let start = of.spans.iter().map(|s| s.start_ns).min().unwrap_or(0);
        json!({
            "policy": of.policy,
            "at": of.at,
            "start": number(start as f64 / 1e6),
            "tracks": of.tracks,
            "spans": of.spans.iter().map(|span| {
                let name = names.iter().position(|n| *n == span.name);
                json!([
                    span.track,
                    name,
                    // Exact: a chart can be zoomed to a microsecond.
                    (span.start_ns - start) as f64 / 1e3,
                    span.length_ns as f64 / 1e3,
                    owners.iter().position(|o| *o == span.owner),
                ])
            }).collect::<Vec<_>>(),
        })
    });
    Some(Figure {
        id: String::new(),
        kind: "timeline",
        title: "A few milliseconds, us from the first thing shown".into(),
        note: "What CPUs, clocks, the drive and a request did around a request of about this latency, first run. Drag the \
               slider, or press + and − when the chart has the focus, to see more of less."
            .into(),
        alt: alt(
            "Timelines with a row per CPU, clock, drive and request:",
            all.iter().map(|t| {
                format!("{} around {}: {} rows, {} spans", policy_name(view, t.policy), t.at, t.tracks.len(), t.spans.len())
            }),
        ),
        choices: vec![
            Choice {
                key: "policy",
                label: "Policy",
                options: policies.iter().map(|p| (p.to_string(), policy_name(view, *p).to_owned())).collect(),
            },
            Choice {
                key: "at",
                label: "Around",
                options: at.iter().rev().map(|a| ((*a).to_owned(), (*a).to_owned())).collect(),
            },
        ],
        table,
        data: json!({"names": names, "of": owners, "views": data.collect::<Vec<_>>()}),
    })
}
