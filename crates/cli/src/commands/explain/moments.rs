//! A few milliseconds around requests of about the median and about the 99th percentile.

use std::collections::BTreeMap;

use wakepath_explain::{KindGroup, RequestKind, RequestTimes, TracedRequest};
use wakepath_results::TimelineSpan;
use wakepath_trace::recording::{Event, EventKind};

/// Shown around a request: about so much.
const SHOWN_NS: u64 = 3_000_000;
/// Requests drawn in a moment at most.
const MOST_REQUESTS: usize = 400;
/// Idle periods kept for a moment at most.
const MOST_PERIODS: usize = 4_000;

/// A stretch of a track.
struct Stretch {
    track: String,
    name: String,
    from: u64,
    to: u64,
}

/// A stretch of time around a request, on the recording's clock in ns.
pub(super) struct Moment {
    /// Place of the request's kind among all kinds.
    pub(super) group: usize,
    at: &'static str,
    from: u64,
    to: u64,
    requests: Vec<Stretch>,
    cpus: Vec<Stretch>,
}

/// When a request's bio came, or else its issue.
pub(super) fn begin_of(request: &TracedRequest) -> u64 {
    let queued = request.queued.map_or(0, |queued| queued.total_ns());
    request.completed.saturating_sub(request.latency + queued)
}

/// When a request's task ran again, or else its completion.
pub(super) fn end_of(request: &TracedRequest) -> u64 {
    let queued = request.queued.map_or(0, |queued| queued.total_ns());
    match request.task_wait_ns() {
        Some(wait) => request.completed + wait.saturating_sub(request.latency + queued),
        None => request.completed,
    }
}

/// The moments of each kind, with their requests; CPUs come by [`Moment::see`].
pub(super) fn find(groups: &[KindGroup<'_>]) -> Vec<Moment> {
    let mut moments = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let mut sorted = group.requests.clone();
        sorted.sort_by_key(|request| RequestTimes::from_request(&group.kind, request).latency_ns());
        for (at, share) in [("p50", 0.5), ("p99", 0.99)] {
            let rank = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
            if let Some(request) = sorted.get(rank) {
                moments.push(Moment::around(request, place, at, groups));
            }
        }
    }
    moments
}

impl Moment {
    fn around(
        request: &TracedRequest,
        group: usize,
        at: &'static str,
        groups: &[KindGroup<'_>],
    ) -> Self {
        let (begin, end) = (begin_of(request), end_of(request));
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
            .filter(|(_, r)| begin_of(r) < moment.to && end_of(r) > moment.from)
            .collect();
        inside.sort_by_key(|(_, request)| begin_of(request));
        inside.truncate(MOST_REQUESTS);
        // A request takes the first slot that is free.
        let mut busy_until: Vec<u64> = Vec::new();
        for (kind, request) in inside {
            let free = busy_until
                .iter()
                .position(|until| *until <= begin_of(request));
            let slot = free.unwrap_or(busy_until.len());
            match busy_until.get_mut(slot) {
                Some(until) => *until = end_of(request),
                None => busy_until.push(end_of(request)),
            }
            moment.draw_request(kind, request, &format!("request slot {slot}"));
        }
        moment
    }

    fn draw_request(&mut self, kind: &RequestKind, request: &TracedRequest, track: &str) {
        let mut now = begin_of(request);
        for (name, length) in list_steps(kind, request) {
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

    /// Takes what a CPU did, if that was in this moment.
    pub(super) fn see(&mut self, event: &Event, state_names: &BTreeMap<u8, String>) {
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
            name: name.unwrap_or_else(|| format!("state {}", period.state)),
            from,
            to,
        });
    }

    /// The spans for results, in ns since `begin`.
    pub(super) fn spans(&self, begin: u64) -> Vec<TimelineSpan> {
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

/// A request's way, step by step, in ns.
fn list_steps(kind: &RequestKind, request: &TracedRequest) -> Vec<(String, u64)> {
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
