//! Moments for timelines: a few milliseconds around requests with about the median and about the 99th percentile
//! latency.

use std::collections::BTreeMap;

use wakepath_explain::{KindGroup, RequestKind, RequestTimes, TracedRequest};
use wakepath_results::TimelineSpan;
use wakepath_trace::recording::{Event, EventKind};
use wakepath_units::printable::escape_for_one_line;

/// How much time is shown around a request.
const SHOWN_NS: u64 = 3_000_000;
/// Most requests that a moment shows.
const MOST_REQUESTS: usize = 400;
/// Most idle periods that a moment shows.
const MOST_PERIODS: usize = 4_000;

/// A stretch of a track: a name between two times.
struct Stretch {
    track: String,
    name: String,
    from: u64,
    to: u64,
}

/// A moment: a stretch of time around a request, on the recording's clock in ns.
pub(super) struct Moment {
    /// Index of the request's kind among all kinds.
    pub(super) group: usize,
    at: &'static str,
    from: u64,
    to: u64,
    requests: Vec<Stretch>,
    cpus: Vec<Stretch>,
}

/// When a request began: when its bio was queued, or else when it was issued.
pub(super) fn request_begin(request: &TracedRequest) -> u64 {
    let queued = request.queued.map_or(0, |queued| queued.total_ns());
    request.completed.saturating_sub(request.latency + queued)
}

/// When a request ended: when its task ran again, or else at completion.
pub(super) fn request_end(request: &TracedRequest) -> u64 {
    let queued = request.queued.map_or(0, |queued| queued.total_ns());
    match request.task_wait_ns() {
        Some(wait) => request.completed + wait.saturating_sub(request.latency + queued),
        None => request.completed,
    }
}

/// The moments for each kind, with their requests; idle periods are added by [`Moment::add_idle_period`].
pub(super) fn find_moments(groups: &[KindGroup<'_>]) -> Vec<Moment> {
    let mut moments = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let mut sorted = group.requests.clone();
        sorted.sort_by_key(|request| RequestTimes::from_request(&group.kind, request).latency_ns());
        for (at, share) in [("p50", 0.5), ("p99", 0.99)] {
            let rank = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
            if let Some(request) = sorted.get(rank) {
                moments.push(Moment::around_request(request, place, at, groups));
            }
        }
    }
    moments
}

impl Moment {
    fn around_request(
        request: &TracedRequest,
        group: usize,
        at: &'static str,
        groups: &[KindGroup<'_>],
    ) -> Self {
        let (begin, end) = (request_begin(request), request_end(request));
        let length = end - begin;
        let margin = (SHOWN_NS.saturating_sub(length) / 2).max(length / 10);
        let mut moment = Self {
            group,
            at,
            from: begin.saturating_sub(margin),
            to: end + margin,
            requests: Vec::new(),
            cpus: Vec::new(),
        };
        let all = groups.iter().flat_map(|group| {
            let requests = group.requests.iter();
            requests.map(|request| (&group.kind, *request))
        });
        let mut inside: Vec<(&RequestKind, &TracedRequest)> = all
            .filter(|(_, r)| request_begin(r) < moment.to && request_end(r) > moment.from)
            .collect();
        inside.sort_by_key(|(_, request)| request_begin(request));
        inside.truncate(MOST_REQUESTS);
        // A request is drawn in the first slot that is free.
        let mut busy_until: Vec<u64> = Vec::new();
        for (kind, request) in inside {
            let free = busy_until
                .iter()
                .position(|until| *until <= request_begin(request));
            let slot = free.unwrap_or(busy_until.len());
            match busy_until.get_mut(slot) {
                Some(until) => *until = request_end(request),
                None => busy_until.push(request_end(request)),
            }
            moment.add_request_steps(kind, request, &format!("request slot {slot}"));
        }
        moment
    }

    fn add_request_steps(&mut self, kind: &RequestKind, request: &TracedRequest, track: &str) {
        let mut now = request_begin(request);
        for (name, length) in list_request_steps(kind, request) {
            if length > 0 {
                self.requests.push(Stretch {
                    track: track.to_owned(),
                    name,
                    from: now,
                    to: now + length,
                });
            }
            now += length;
        }
    }

    /// Adds the idle period that an event ends, if part of the period is in this moment.
    pub(super) fn add_idle_period(&mut self, event: &Event, state_names: &BTreeMap<u8, String>) {
        let EventKind::Idle(period) = &event.kind else {
            return;
        };
        let to = event.time.0;
        let from = to.saturating_sub(period.duration.0);
        if from >= self.to || to <= self.from || self.cpus.len() >= MOST_PERIODS {
            return;
        }
        let name = state_names.get(&period.state).cloned();
        self.cpus.push(Stretch {
            track: format!("CPU {}", event.cpu),
            name: name.map_or_else(
                || format!("state {}", period.state),
                |name| escape_for_one_line(&name).into_owned(),
            ),
            from,
            to,
        });
    }

    /// The moment's spans for results, in ns since `begin`.
    pub(super) fn timeline_spans(&self, begin: u64) -> Vec<TimelineSpan> {
        let from = self.from.max(begin);
        let stretches = self.cpus.iter().chain(&self.requests);
        let inside = stretches.filter(|stretch| stretch.from < self.to && stretch.to > from);
        let spans = inside.map(|stretch| TimelineSpan {
            at: self.at.to_owned(),
            track: stretch.track.clone(),
            name: stretch.name.clone(),
            start_ns: stretch.from.max(from) - begin,
            end_ns: stretch.to.min(self.to) - begin,
        });
        spans.collect()
    }
}

/// The steps of a request's way, each with its length in ns.
fn list_request_steps(kind: &RequestKind, request: &TracedRequest) -> Vec<(String, u64)> {
    let exit = kind.estimated_exit(request);
    let mut steps = Vec::new();
    if let Some(queued) = request.queued {
        steps.extend([
            ("tag", queued.tag),
            ("plug", queued.plug),
            ("scheduler", queued.scheduler),
        ]);
    }
    steps.extend([
        ("drive", request.out - exit),
        ("idle exit, estimated", exit),
        ("interrupt", request.interrupt),
    ]);
    if let Some(remote) = request.remote {
        steps.extend([
            ("idle exit of the completing CPU", remote.exit),
            ("completion on another CPU", remote.handling),
        ]);
    }
    if let Some(wake) = request.wake
        && let Some(run_queue) = wake.run_queue
    {
        steps.extend([
            ("hand-over", wake.hand_over),
            ("other threads", wake.through),
            ("idle exit of the task's CPU", wake.exit),
            ("run queue", run_queue),
        ]);
    }
    let named = steps.into_iter().map(|(name, ns)| (name.to_owned(), ns));
    named.collect()
}
