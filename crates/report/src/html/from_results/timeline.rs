//! Timelines: a few representative milliseconds, in as few rows as they need.

use std::collections::BTreeMap;

use wakepath_results::{ResultsError, TimelineRow};

use super::super::view::{PageSpan, PageTimeline, View};
use super::{Place, placed};

/// More rows than this and those on which nothing changes are left out.
const ROOMY: usize = 16;
/// More rows than this are not drawn at all.
const MAX_TRACKS: usize = 40;
/// More spans than this make the page slow; timelines of the last policies go first.
const MAX_SPANS: usize = 40_000;

/// How the tracks of requests begin: each has one of its own in the results, and they share rows here.
const REQUEST: &str = "request ";

pub(super) fn add(view: &mut View, places: &[Place<'_>]) -> Result<(), ResultsError> {
    for place in places {
        let mut all: BTreeMap<(usize, usize, String), Vec<TimelineRow>> = BTreeMap::new();
        let table = ("timeline.parquet", "timeline");
        let rows = placed(view, place, table, place.reader.timeline(), |row| {
            [&row.machine, &row.workload, &row.policy]
        })?;
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
                .push(timeline(policy, at, rows));
        }
    }
    keep_the_page_small(view);
    Ok(())
}

/// Drops the timelines around the median, then those of the last policies, until few enough spans are left.
fn keep_the_page_small(view: &mut View) {
    let count = |view: &View| -> usize {
        view.workloads
            .iter()
            .flat_map(|w| &w.timelines)
            .map(|t| t.spans.len())
            .sum()
    };
    let before: usize = view.workloads.iter().map(|w| w.timelines.len()).sum();
    let mut policies = view.policies.len();
    if count(view) > MAX_SPANS {
        for workload in &mut view.workloads {
            let has_tail = workload.timelines.iter().any(|t| t.at != "p50");
            workload.timelines.retain(|t| t.at != "p50" || !has_tail);
        }
    }
    while count(view) > MAX_SPANS && policies > 1 {
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

fn timeline(policy: usize, at: String, mut rows: Vec<TimelineRow>) -> PageTimeline {
    // Tracks stay in the order of the results.
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
    names.sort_by_key(|name| natural(name));
    tracks.extend(names.iter().map(|n| (*n).to_owned()));
    let first_lane = tracks.len();
    let ends = request_ends(&rows);
    for row in &rows {
        let (track, owner) = if row.track.starts_with(REQUEST) {
            let end = ends.get(row.track.as_str()).copied().unwrap_or(row.end_ns);
            (
                first_lane + lanes.of(&row.track, row.start_ns, end),
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
    leave_out_still_tracks(&mut timeline);
    timeline
}

/// When each request of the rows is done.
fn request_ends(rows: &[TimelineRow]) -> BTreeMap<&str, u64> {
    let mut ends = BTreeMap::new();
    for row in rows.iter().filter(|r| r.track.starts_with(REQUEST)) {
        let end: &mut u64 = ends.entry(row.track.as_str()).or_default();
        *end = row.end_ns.max(*end);
    }
    ends
}

/// Rows that requests share: each takes the first one that is free.
#[derive(Default)]
struct Lanes {
    busy_until: Vec<u64>,
    of_request: BTreeMap<String, usize>,
}

impl Lanes {
    fn of(&mut self, request: &str, start: u64, end: u64) -> usize {
        if let Some(lane) = self.of_request.get(request) {
            return *lane;
        }
        let free = self.busy_until.iter().position(|until| *until <= start);
        let lane = free.unwrap_or_else(|| {
            self.busy_until.push(0);
            self.busy_until.len() - 1
        });
        self.busy_until[lane] = end;
        self.of_request.insert(request.to_owned(), lane);
        lane
    }
}

/// A name with its first number as a number: CPU 10 comes after CPU 9.
fn natural(name: &str) -> (String, u64, String) {
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

fn leave_out_still_tracks(timeline: &mut PageTimeline) {
    if timeline.tracks.len() <= ROOMY {
        return;
    }
    let spans_on = |track: usize| timeline.spans.iter().filter(|s| s.track == track).count();
    let mut kept: Vec<usize> = (0..timeline.tracks.len())
        .filter(|t| spans_on(*t) > 1 || timeline.tracks[*t].starts_with("requests "))
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
        let timeline = timeline(0, "p99".into(), rows);
        assert_eq!(
            timeline.tracks,
            ["CPU 9 (big)", "CPU 10 (big)", "requests 1", "requests 2"]
        );
        let lane = |owner: &str| {
            timeline
                .spans
                .iter()
                .find(|s| s.owner == owner)
                .map(|s| s.track)
        };
        assert_eq!(
            [lane("request 0"), lane("request 1"), lane("request 2")],
            [Some(2), Some(3), Some(2)]
        );
    }

    #[test]
    fn still_rows_make_room() {
        let mut rows: Vec<TimelineRow> = (0..30)
            .map(|i| row(&format!("CPU {i}"), "deep", 0, 100))
            .collect();
        rows.push(row("CPU 7", "task", 100, 110));
        let timeline = timeline(0, "p99".into(), rows);
        assert_eq!(timeline.tracks, ["CPU 7"]);
        assert!(timeline.spans.iter().all(|s| s.track == 0) && timeline.spans.len() == 2);
    }
}
