//! Timelines: a few representative milliseconds, in as few rows as possible.

use std::collections::BTreeMap;

use wakepath_results::{ResultsError, TimelineRow};

use super::super::view::{PageSpan, PageTimeline, View};
use super::place::{PlacedResult, rows_with_known_cells};

/// Timelines of more rows leave out rows without a change.
const ROOMY: usize = 16;
/// Most rows of a timeline that are drawn.
const MAX_TRACKS: usize = 40;
/// Most spans on a page: more make it slow. The last policies lose their timelines first.
const MAX_SPANS: usize = 40_000;

/// Prefix of a request's track. Each request has a track in the results; on the page requests share rows.
const REQUEST: &str = "request ";

pub(super) fn add_timelines(
    view: &mut View,
    places: &[PlacedResult<'_>],
) -> Result<(), ResultsError> {
    for place in places {
        let mut all: BTreeMap<(usize, usize, String), Vec<TimelineRow>> = BTreeMap::new();
        let table = ("timeline.parquet", "timeline");
        let rows = rows_with_known_cells(
            view,
            place,
            table,
            place.reader.read_timeline_rows(),
            |row| [&row.machine, &row.workload, &row.policy],
        )?;
        for ((workload, policy), row) in rows {
            if row.end_ns > row.start_ns {
                all.entry((workload, policy, row.at.clone()))
                    .or_default()
                    .push(row);
            }
        }
        for ((workload, policy, at), rows) in all {
            view.workloads[workload]
                .timelines
                .push(build_timeline(policy, at, rows));
        }
    }
    drop_timelines_beyond_span_limit(view);
    Ok(())
}

/// Drops timelines around the median, then the last policies' timelines, until few enough spans are left.
fn drop_timelines_beyond_span_limit(view: &mut View) {
    let before: usize = view.workloads.iter().map(|w| w.timelines.len()).sum();
    let mut policies = view.policies.len();
    if count_spans(view) > MAX_SPANS {
        for workload in &mut view.workloads {
            let has_tail = workload.timelines.iter().any(|t| t.at != "p50");
            workload.timelines.retain(|t| t.at != "p50" || !has_tail);
        }
    }
    while count_spans(view) > MAX_SPANS && policies > 1 {
        policies -= 1;
        for workload in &mut view.workloads {
            workload.timelines.retain(|t| t.policy < policies);
        }
    }
    let after: usize = view.workloads.iter().map(|w| w.timelines.len()).sum();
    if after < before {
        view.cautions.push(format!(
            "{after} of {before} timelines are shown, to keep the page small; timeline.parquet has all of them."
        ));
    }
}

fn count_spans(view: &View) -> usize {
    let timelines = view.workloads.iter().flat_map(|w| &w.timelines);
    timelines.map(|t| t.spans.len()).sum()
}

fn build_timeline(policy: usize, at: String, mut rows: Vec<TimelineRow>) -> PageTimeline {
    let mut tracks: Vec<String> = Vec::new();
    let mut lanes = Lanes::default();
    let mut spans = Vec::new();
    rows.sort_by_key(|r| r.start_ns);
    let mut names: Vec<&str> = Vec::new();
    for row in &rows {
        if !row.track.starts_with(REQUEST) && !names.contains(&row.track.as_str()) {
            names.push(&row.track);
        }
    }
    names.sort_by_key(|name| sort_key_with_first_number(name));
    tracks.extend(names.iter().map(|n| (*n).to_owned()));
    let first_lane = tracks.len();
    let ends = end_of_each_request(&rows);
    for row in &rows {
        let (track, owner) = if row.track.starts_with(REQUEST) {
            let end = ends.get(row.track.as_str()).copied().unwrap_or(row.end_ns);
            (
                first_lane + lanes.lane_for_request(&row.track, row.start_ns, end),
                row.track.clone(),
            )
        } else {
            let index = names.iter().position(|n| *n == row.track).unwrap_or(0);
            (index, String::new())
        };
        spans.push(PageSpan {
            track,
            name: row.name.clone(),
            owner,
            start_ns: row.start_ns,
            length_ns: row.end_ns - row.start_ns,
        });
    }
    tracks.extend((1..=lanes.busy_until.len()).map(|n| format!("requests {n}")));
    let mut timeline = PageTimeline {
        policy,
        at,
        tracks,
        spans,
    };
    drop_tracks_without_change(&mut timeline);
    timeline
}

/// The time in ns at which each request of a timeline is done, by the name of its track.
fn end_of_each_request(rows: &[TimelineRow]) -> BTreeMap<&str, u64> {
    let mut ends = BTreeMap::new();
    for row in rows.iter().filter(|r| r.track.starts_with(REQUEST)) {
        let end: &mut u64 = ends.entry(row.track.as_str()).or_default();
        *end = row.end_ns.max(*end);
    }
    ends
}

/// Rows of a timeline that requests share: each request takes the first free row.
#[derive(Default)]
struct Lanes {
    busy_until: Vec<u64>,
    by_request: BTreeMap<String, usize>,
}

impl Lanes {
    fn lane_for_request(&mut self, request: &str, start: u64, end: u64) -> usize {
        if let Some(lane) = self.by_request.get(request) {
            return *lane;
        }
        let free = self.busy_until.iter().position(|until| *until <= start);
        let lane = free.unwrap_or_else(|| {
            self.busy_until.push(0);
            self.busy_until.len() - 1
        });
        self.busy_until[lane] = end;
        self.by_request.insert(request.to_owned(), lane);
        lane
    }
}

/// A sorting key in which the first number of a name counts as a number: CPU 10 comes after CPU 9.
fn sort_key_with_first_number(name: &str) -> (String, u64, String) {
    let start = name
        .find(|c: char| c.is_ascii_digit())
        .unwrap_or(name.len());
    let rest = &name[start..];
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    (
        name[..start].to_owned(),
        rest[..digits].parse().unwrap_or(0),
        rest[digits..].to_owned(),
    )
}

fn drop_tracks_without_change(timeline: &mut PageTimeline) {
    if timeline.tracks.len() <= ROOMY {
        return;
    }
    let mut span_counts = vec![0; timeline.tracks.len()];
    for span in &timeline.spans {
        span_counts[span.track] += 1;
    }
    let mut kept: Vec<usize> = (0..timeline.tracks.len())
        .filter(|t| span_counts[*t] > 1 || timeline.tracks[*t].starts_with("requests "))
        .collect();
    kept.truncate(MAX_TRACKS);
    timeline
        .spans
        .retain_mut(|span| match kept.iter().position(|t| *t == span.track) {
            Some(index) => {
                span.track = index;
                true
            }
            None => false,
        });
    let mut tracks = std::mem::take(&mut timeline.tracks);
    timeline.tracks = kept
        .iter()
        .map(|t| std::mem::take(&mut tracks[*t]))
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(track: &str, name: &str, start_ns: u64, end_ns: u64) -> TimelineRow {
        TimelineRow {
            machine: "m".into(),
            workload: "w".into(),
            policy: "p".into(),
            at: "p99".into(),
            track: track.into(),
            name: name.into(),
            start_ns,
            end_ns,
        }
    }

    #[test]
    fn requests_share_rows_and_never_overlap() {
        let rows = vec![
            row("CPU 10 (big)", "task", 0, 10),
            row("CPU 9 (big)", "task", 0, 10),
            row("request 0", "submission", 0, 10),
            row("request 0", "drive", 10, 50),
            row("request 1", "submission", 20, 60),
            row("request 2", "submission", 50, 70),
        ];
        let timeline = build_timeline(0, "p99".into(), rows);
        assert_eq!(
            timeline.tracks,
            ["CPU 9 (big)", "CPU 10 (big)", "requests 1", "requests 2"]
        );
        let lanes = ["request 0", "request 1", "request 2"].map(|owner| {
            let span = timeline.spans.iter().find(|span| span.owner == owner);
            span.map(|span| span.track)
        });
        assert_eq!(lanes, [Some(2), Some(3), Some(2)]);
    }

    #[test]
    fn still_rows_make_room() {
        let mut rows: Vec<TimelineRow> = (0..30)
            .map(|i| row(&format!("CPU {i}"), "deep", 0, 100))
            .collect();
        rows.push(row("CPU 7", "task", 100, 110));
        let timeline = build_timeline(0, "p99".into(), rows);
        assert_eq!(timeline.tracks, ["CPU 7"]);
        assert!(timeline.spans.iter().all(|s| s.track == 0) && timeline.spans.len() == 2);
    }
}
