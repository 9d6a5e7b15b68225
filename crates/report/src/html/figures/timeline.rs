//! Timelines: what CPUs, clocks, the drive and a request did in a few representative milliseconds.

use serde_json::{Value, json};

use super::super::number::{
    format_four_significant_digits, round_to_five_digits_or_null as number,
};
use super::super::view::{PageSpan, PageTimeline, PageWorkload, View};
use super::figure::{Choice, Figure, Table, build_alternative_text, distinct, policy_name};

pub(super) fn draw_timelines(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all: Vec<&PageTimeline> = workload
        .timelines
        .iter()
        .filter(|t| !t.spans.is_empty())
        .collect();
    if all.is_empty() {
        return None;
    }
    Some(Figure {
        id: String::new(),
        kind: "timeline",
        title: "A few milliseconds, us from the first thing shown".into(),
        note: "What CPUs, clocks, the drive and a request did around a request of about this latency, first run. Drag the \
               slider, or press + and − when the chart has the focus, to see more of less."
            .into(),
        alt: build_alternative_text(
            "Timelines with a row per CPU, clock, drive and request:",
            all.iter().map(|t| {
                format!("{} around {}: {} rows, {} spans", policy_name(view, t.policy), t.at, t.tracks.len(), t.spans.len())
            }),
        ),
        choices: choices(view, &all),
        table: table_of_spans_by_track(view, &all),
        data: timelines_for_chart(&all),
    })
}

/// Menus of timelines: the policy, and the percentile of the request in the middle.
fn choices(view: &View, timelines: &[&PageTimeline]) -> Vec<Choice> {
    let mut policies: Vec<usize> = timelines.iter().map(|t| t.policy).collect();
    policies.dedup();
    let policy_options = policies
        .iter()
        .map(|p| (p.to_string(), policy_name(view, *p).to_owned()));
    let latencies = distinct(timelines.iter().map(|t| t.at.as_str()));
    let latency_options = latencies
        .iter()
        .rev()
        .map(|at| ((*at).to_owned(), (*at).to_owned()));
    vec![
        Choice {
            key: "policy",
            label: "Policy",
            options: policy_options.collect(),
        },
        Choice {
            key: "at",
            label: "Around",
            options: latency_options.collect(),
        },
    ]
}

/// A table row for each track and each name of its spans: how often, how long together, how long at most.
fn table_of_spans_by_track(view: &View, timelines: &[&PageTimeline]) -> Table {
    let mut table = Table::with_head(
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
    for timeline in timelines {
        for (index, track) in timeline.tracks.iter().enumerate() {
            let on_track = timeline.spans.iter().filter(|s| s.track == index);
            let spans: Vec<&PageSpan> = on_track.collect();
            for name in distinct(spans.iter().map(|s| s.name.as_str())) {
                let named = spans.iter().filter(|s| s.name == name);
                let lengths: Vec<u64> = named.map(|s| s.length_ns).collect();
                let together = lengths.iter().copied().fold(0, u64::saturating_add);
                let longest = lengths.iter().max().copied().unwrap_or(0);
                table.add_row([
                    policy_name(view, timeline.policy).to_owned(),
                    timeline.at.clone(),
                    track.clone(),
                    name.to_owned(),
                    lengths.len().to_string(),
                    format_four_significant_digits(together as f64 / 1e3),
                    format_four_significant_digits(longest as f64 / 1e3),
                ]);
            }
        }
    }
    table
}

/// Timelines for `timeline.js`: names and owners of spans are said once, and spans have their numbers.
fn timelines_for_chart(timelines: &[&PageTimeline]) -> Value {
    let spans = timelines.iter().flat_map(|t| &t.spans);
    let names = distinct(spans.clone().map(|s| s.name.as_str()));
    let owners = distinct(spans.map(|s| s.owner.as_str()));
    let views = timelines
        .iter()
        .map(|timeline| timeline_for_chart(timeline, &names, &owners));
    json!({"views": views.collect::<Vec<_>>(), "names": names, "of": owners})
}

fn timeline_for_chart(timeline: &PageTimeline, names: &[&str], owners: &[&str]) -> Value {
    let starts = timeline.spans.iter().map(|s| s.start_ns);
    let start = starts.min().unwrap_or(0);
    let spans = timeline.spans.iter().map(|span| {
        json!([
            span.track,
            names.iter().position(|n| *n == span.name),
            // Times are not rounded, since a timeline can be zoomed to a microsecond.
            (span.start_ns - start) as f64 / 1e3,
            span.length_ns as f64 / 1e3,
            owners.iter().position(|o| *o == span.owner),
        ])
    });
    json!({
        "policy": timeline.policy,
        "at": timeline.at,
        "start": number(start as f64 / 1e6),
        "tracks": timeline.tracks,
        "spans": spans.collect::<Vec<_>>(),
    })
}
