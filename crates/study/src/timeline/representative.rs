//! A few representative milliseconds of a run: around requests with about the median and about the 99th percentile
//! latency.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_results::TimelineSpan;
use wakepath_results::timeline::Timeline;
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use super::{Observed, RunProgress};

/// Time from which spans are kept: the run has settled by then.
const FROM: u64 = 100_000_000;
/// How long a run is observed, if there are enough requests by then.
const ENOUGH_TIME: u64 = 300_000_000;
const ENOUGH_REQUESTS: usize = 300;
/// How long a run is observed at most.
const LONGEST: Nanoseconds = Nanoseconds(20_000_000_000);
const MAX_SPANS: usize = 600_000;
/// How much time is shown around a request.
const SHOWN: u64 = 3_000_000;

/// Observes a run until representative requests are seen. The run goes on to its end, or until `cancelled`.
pub(crate) fn observe_representative<'a>(
    machine: &Machine,
    workload: &Workload,
    cancelled: &'a AtomicBool,
) -> Observed<'a, fn(&RunProgress) -> bool> {
    let enough: fn(&RunProgress) -> bool = has_enough_requests;
    Observed {
        from: FROM,
        cancelled: Some(cancelled),
        ..Observed::new(machine, workload, LONGEST, enough)
    }
}

fn has_enough_requests(seen: &RunProgress) -> bool {
    let time = seen.now.saturating_sub(FROM);
    let requests = seen.done.len() >= ENOUGH_REQUESTS || seen.on_the_way == 0;
    (time >= ENOUGH_TIME && requests) || seen.spans >= MAX_SPANS
}

/// The observed spans around both requests, by track and time.
pub(crate) fn make_timeline_spans<F: Fn(&RunProgress) -> bool>(
    observed: Observed<'_, F>,
) -> Vec<TimelineSpan> {
    let (timeline, mut seen) = observed.into_timeline_and_progress();
    seen.done.sort_by_key(|(begun, end)| end - begun);
    let [median, tail] = [0.5, 0.99].map(|quantile| {
        let rank = (seen.done.len() as f64 * quantile) as usize;
        let last = seen.done.len().saturating_sub(1);
        seen.done.get(rank.min(last)).copied()
    });
    let windows = match (median, tail) {
        (Some(p50), Some(p99)) => vec![("p50", p50), ("p99", p99)],
        _ => vec![("p50", (FROM, FROM + SHOWN / 2))],
    };
    let spans = timeline.cut_spans_at_inner_starts();
    let mut rows = Vec::new();
    for (at, (begun, end)) in windows {
        let around = (SHOWN.saturating_sub(end - begun) / 2).max((end - begun) / 10);
        let (from, to) = (begun.saturating_sub(around), end + around);
        let seen = spans.iter().filter(|s| s.start_ns < to && s.end_ns > from);
        rows.extend(seen.map(|span| TimelineSpan {
            at: at.to_owned(),
            track: name_track(&timeline, span.track),
            name: timeline.describe_span(span),
            start_ns: span.start_ns.max(from),
            end_ns: span.end_ns.min(to),
        }));
    }
    rows
}

fn name_track(timeline: &Timeline, track: usize) -> String {
    let track = timeline.tracks.get(track);
    track.map_or_else(String::new, |track| track.name.clone())
}
