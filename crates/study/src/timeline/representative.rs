//! A few representative milliseconds of a run: around a request of about the median latency, and around one of about the
//! 99th percentile.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_results::timeline::Timeline;
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use super::{Observed, Seen};

/// The run has settled by then.
const FROM: u64 = 100_000_000;
/// What is looked at, if there are enough requests in it.
const ENOUGH_TIME: u64 = 300_000_000;
const ENOUGH_REQUESTS: usize = 300;
/// No longer than this, whatever there is.
const LONGEST: Nanoseconds = Nanoseconds(20_000_000_000);
const MAX_SPANS: usize = 600_000;
/// Shown around the request: about so much.
const SHOWN: u64 = 3_000_000;

/// Watches a run until it has seen what is representative. The run goes on until its end, or until it is `cancelled`.
pub(crate) fn observe<'a>(
    machine: &Machine,
    workload: &Workload,
    cancelled: &'a AtomicBool,
) -> Observed<'a, fn(&Seen) -> bool> {
    let enough: fn(&Seen) -> bool = is_enough;
    Observed {
        from: FROM,
        cancelled: Some(cancelled),
        ..Observed::new(machine, workload, LONGEST, enough)
    }
}

fn is_enough(seen: &Seen) -> bool {
    let time = seen.now.saturating_sub(FROM);
    let requests = seen.done.len() >= ENOUGH_REQUESTS || seen.on_the_way == 0;
    (time >= ENOUGH_TIME && requests) || seen.spans >= MAX_SPANS
}

/// The rows `(at, track, name, start_ns, end_ns)` of what was seen, by track and time.
pub(crate) fn rows<F: Fn(&Seen) -> bool>(
    observed: Observed<'_, F>,
) -> Vec<(String, String, String, u64, u64)> {
    let (timeline, mut seen) = observed.finish();
    seen.done.sort_by_key(|(begun, end)| end - begun);
    let at = |quantile: f64| {
        let rank = (seen.done.len() as f64 * quantile) as usize;
        let last = seen.done.len().saturating_sub(1);
        seen.done.get(rank.min(last)).copied()
    };
    let windows = match (at(0.5), at(0.99)) {
        (Some(p50), Some(p99)) => vec![("p50", p50), ("p99", p99)],
        _ => vec![("p50", (FROM, FROM + SHOWN / 2))],
    };
    let spans = timeline.flat();
    let mut rows = Vec::new();
    for (at, (begun, end)) in windows {
        let around = (SHOWN.saturating_sub(end - begun) / 2).max((end - begun) / 10);
        let (from, to) = (begun.saturating_sub(around), end + around);
        let seen = spans.iter().filter(|s| s.start_ns < to && s.end_ns > from);
        rows.extend(seen.map(|span| {
            let (start, end) = (span.start_ns.max(from), span.end_ns.min(to));
            let track = track_name(&timeline, span.track);
            (at.to_owned(), track, timeline.says(span), start, end)
        }));
    }
    rows
}

fn track_name(timeline: &Timeline, track: usize) -> String {
    let track = timeline.tracks.get(track);
    track.map_or_else(String::new, |track| track.name.clone())
}
