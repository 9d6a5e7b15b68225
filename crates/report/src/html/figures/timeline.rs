//! Timelines: what CPUs, clocks, the drive and a request did in a few representative milliseconds.

use serde_json::json;

use super::super::number::{json as number, short};
use super::super::view::{PageSpan, PageTimeline, PageWorkload, View};
use super::figure::{Choice, Figure, Table, alt, distinct, policy_name};

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
    for timeline in &all {
        for (index, track) in timeline.tracks.iter().enumerate() {
            let on_track = timeline.spans.iter().filter(|s| s.track == index);
            let spans: Vec<&PageSpan> = on_track.collect();
            for name in distinct(spans.iter().map(|s| s.name.as_str())) {
                let named = spans.iter().filter(|s| s.name == name);
                let lengths: Vec<u64> = named.map(|s| s.length_ns).collect();
                let together = lengths.iter().copied().fold(0, u64::saturating_add);
                let longest = lengths.iter().max().copied().unwrap_or(0);
                table.row([
                    policy_name(view, timeline.policy).to_owned(),
                    timeline.at.clone(),
                    track.clone(),
                    name.to_owned(),
                    lengths.len().to_string(),
                    short(together as f64 / 1e3),
                    short(longest as f64 / 1e3),
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
    let data = all.iter().map(|timeline| {
        let starts = timeline.spans.iter().map(|s| s.start_ns);
        let start = starts.min().unwrap_or(0);
        json!({
            "policy": timeline.policy,
            "at": timeline.at,
            "start": number(start as f64 / 1e6),
            "tracks": timeline.tracks,
            "spans": timeline.spans.iter().map(|span| {
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
