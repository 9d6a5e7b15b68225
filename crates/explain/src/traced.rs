//! Requests for results: latency from bio to running task, parts, histograms.

use crate::report::RequestKind;
use crate::requests::{MetState, TracedRequest};

/// The parts of a request's latency in the terms of the simulator, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// Time before the issue: tag, plug, scheduler.
    pub submission: u64,
    /// Issue to interrupt without the estimated exit: queueing, wake-up and service of the drive.
    pub drive: u64,
    /// Interrupt handler and completion, on both CPUs.
    pub interrupt: u64,
    /// Idle exits: the interrupted CPU's, estimated; the completing CPU's and the task's CPU's, measured.
    pub idle_exit: u64,
    /// Time after completion until the task ran: hand-over, other threads and run queue.
    pub waiting: u64,
}

impl RequestTimes {
    /// Divides the time of a request that belongs to this kind.
    pub fn from_request(kind: &RequestKind, request: &TracedRequest) -> Self {
        Self::with_exit(request, kind.estimated_exit(request))
    }

    /// Divides the time of a request without an estimate of the interrupted CPU's idle exit, which then counts as the drive's.
    pub fn without_exit_estimate(request: &TracedRequest) -> Self {
        Self::with_exit(request, 0)
    }

    /// `exit`: time of the interrupted CPU's idle exit, in ns, at most the request's `out`.
    fn with_exit(request: &TracedRequest, exit: u64) -> Self {
        let remote = request.remote;
        let (remote_exit, handling) = remote.map_or((0, 0), |r| (r.exit, r.handling));
        let wake = request.wake.filter(|wake| wake.run_queue.is_some());
        Self {
            submission: request.queued.map_or(0, |queued| queued.total_ns()),
            drive: request.out - exit,
            interrupt: request.interrupt + handling,
            idle_exit: exit + remote_exit + wake.map_or(0, |wake| wake.exit),
            waiting: wake.map_or(0, |wake| {
                wake.hand_over + wake.through + wake.run_queue.unwrap_or(0)
            }),
        }
    }

    /// Sum of all parts: from the bio, or else the issue, until the task ran, or else to completion.
    pub fn latency_ns(&self) -> u64 {
        self.submission + self.drive + self.interrupt + self.idle_exit + self.waiting
    }

    /// The parts in the order of the fields, in ns.
    pub const fn in_field_order(&self) -> [u64; 5] {
        [
            self.submission,
            self.drive,
            self.interrupt,
            self.idle_exit,
            self.waiting,
        ]
    }
}

/// Means of [`RequestTimes`], in the order of its fields, in ns.
pub type MeanTimes = [f64; 5];

/// Requests of about the same latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyRange {
    /// Shortest latency in ns.
    pub low: u64,
    /// Longest latency in ns.
    pub high: u64,
    /// Number of requests with a latency in the range.
    pub requests: u64,
}

/// Latencies of some requests, sorted, with their parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedLatencies {
    /// Sorted by latency.
    times: Vec<RequestTimes>,
}

/// Ranges per doubling of the latency, as a power of two: each is at most 3 % wide.
const RANGE_BITS: u32 = 5;

impl TracedLatencies {
    /// Summarizes requests, in any order.
    pub fn new(times: impl Iterator<Item = RequestTimes>) -> Self {
        let mut sorted: Vec<RequestTimes> = times.collect();
        sorted.sort_by_key(RequestTimes::latency_ns);
        Self { times: sorted }
    }

    /// How many requests there are.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// Mean latency in ns; 0 without requests.
    pub fn mean_ns(&self) -> f64 {
        self.mean_times().iter().sum()
    }

    /// Latency that this share of the requests does not exceed, in ns.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        self.request_at_quantile(share)
            .map(RequestTimes::latency_ns)
    }

    fn request_at_quantile(&self, share: f64) -> Option<&RequestTimes> {
        let rank = (self.times.len() as f64 * share).ceil() as usize;
        self.times.get(rank.saturating_sub(1)).or(self.times.last())
    }

    /// Mean parts over all requests.
    pub fn mean_times(&self) -> MeanTimes {
        mean_times_over(&self.times)
    }

    /// Mean parts over the requests within 3 % of a quantile.
    pub fn mean_times_near_quantile(&self, share: f64) -> Option<MeanTimes> {
        let range = latency_range_index(self.quantile_ns(share)?);
        let begin = self
            .times
            .partition_point(|t| latency_range_index(t.latency_ns()) < range);
        let end = self
            .times
            .partition_point(|t| latency_range_index(t.latency_ns()) <= range);
        self.times.get(begin..end).map(mean_times_over)
    }

    /// Numbers of requests by range of latency, shortest first; empty ranges are left out.
    pub fn histogram(&self) -> Vec<LatencyRange> {
        let mut ranges: Vec<LatencyRange> = Vec::new();
        for times in &self.times {
            let index = latency_range_index(times.latency_ns());
            let low = shortest_latency_in_range(index);
            match ranges.last_mut().filter(|last| last.low == low) {
                Some(last) => last.requests += 1,
                None => ranges.push(LatencyRange {
                    low,
                    high: shortest_latency_in_range(index + 1) - 1,
                    requests: 1,
                }),
            }
        }
        ranges
    }
}

fn mean_times_over(times: &[RequestTimes]) -> MeanTimes {
    let mut sums = [0_u128; 5];
    for request in times {
        for (sum, part) in sums.iter_mut().zip(request.in_field_order()) {
            *sum += u128::from(part);
        }
    }
    sums.map(|sum| sum as f64 / times.len().max(1) as f64)
}

/// Index of the range that a latency falls in: a range per value below `2^(RANGE_BITS + 1)`, then `2^RANGE_BITS` per
/// doubling.
fn latency_range_index(latency: u64) -> u64 {
    let octave = (64 - latency.leading_zeros()).saturating_sub(RANGE_BITS + 1);
    (u64::from(octave) << RANGE_BITS) + (latency >> octave)
}

/// Shortest latency of the range with this index, in ns.
fn shortest_latency_in_range(index: u64) -> u64 {
    let octave = (index >> RANGE_BITS).saturating_sub(1);
    let mantissa = index - (octave << RANGE_BITS);
    mantissa.checked_shl(octave as u32).unwrap_or(u64::MAX)
}

/// Request classes by CPU state at the interrupt, shallow states first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetClass {
    /// The CPU ran.
    Awake,
    /// The CPU was in this idle state, and nothing else ended it.
    State(u8),
}

impl MetClass {
    /// The class of a request; `None` where something else had ended the idle period, or events are missing.
    pub fn from_request(request: &TracedRequest) -> Option<Self> {
        match request.met {
            MetState::Awake => Some(Self::Awake),
            MetState::State(state) => Some(Self::State(state)),
            MetState::Leaving(_) | MetState::Behind(_) | MetState::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_narrow_and_follow_each_other() {
        let latencies = (0..200).chain((0..58).map(|bit| (1_u64 << bit) + 12_345));
        for latency in latencies {
            let index = latency_range_index(latency);
            let (low, next) = (
                shortest_latency_in_range(index),
                shortest_latency_in_range(index + 1),
            );
            assert!((low..next).contains(&latency), "{latency}");
            assert!(next - low <= 1 + latency / 31, "{latency}");
        }
    }

    #[test]
    fn parts_at_a_quantile_are_those_of_requests_about_it() {
        let short = RequestTimes {
            drive: 1_000,
            ..RequestTimes::default()
        };
        let long = RequestTimes {
            drive: 1_000,
            idle_exit: 9_000,
            ..RequestTimes::default()
        };
        let times = [short; 98].into_iter().chain([long; 2]);
        let summary = TracedLatencies::new(times);
        assert_eq!(summary.quantile_ns(0.5), Some(1_000));
        assert_eq!(
            summary.mean_times_near_quantile(0.99),
            Some([0.0, 1_000.0, 0.0, 9_000.0, 0.0])
        );
        assert_eq!(
            summary.mean_times_near_quantile(0.5),
            Some([0.0, 1_000.0, 0.0, 0.0, 0.0])
        );
        assert!((summary.mean_ns() - 1_180.0).abs() < 1e-9);
        let counts = summary
            .histogram()
            .iter()
            .map(|r| r.requests)
            .collect::<Vec<_>>();
        assert_eq!(counts, [98, 2]);
        assert_eq!(
            TracedLatencies::default().mean_times_near_quantile(0.5),
            None
        );
    }
}
