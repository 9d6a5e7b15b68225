//! Requests for results: latency from bio to running task, parts, histograms.

use crate::report::RequestKind;
use crate::requests::{MetState, TracedRequest};

/// The parts of a request's latency in the terms of the simulator, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// Before the issue: tag, plug, scheduler.
    pub submission: u64,
    /// Issue to interrupt without the estimated exit: queueing, wake-up and service of the drive.
    pub drive: u64,
    /// Interrupt handler and completion, on both CPUs.
    pub interrupt: u64,
    /// Idle exits: the interrupted CPU's, estimated; the completing CPU's and the task's CPU's, measured.
    pub idle_exit: u64,
    /// Hand-over, other threads and run queue.
    pub waiting: u64,
}

impl RequestTimes {
    /// Cuts a request of a kind.
    pub fn new(kind: &RequestKind, request: &TracedRequest) -> Self {
        let exit = kind.estimated_exit(request);
        let remote = request.remote;
        let (remote_exit, handling) = remote.map_or((0, 0), |r| (r.exit, r.handling));
        let wake = request.wake.filter(|wake| wake.run_queue.is_some());
        Self {
            submission: request.queued.map_or(0, |queued| queued.total()),
            drive: request.out - exit,
            interrupt: request.interrupt + handling,
            idle_exit: exit + remote_exit + wake.map_or(0, |wake| wake.exit),
            waiting: wake.map_or(0, |wake| {
                wake.hand_over + wake.through + wake.run_queue.unwrap_or(0)
            }),
        }
    }

    /// All parts: from the bio, or else the issue, until the task ran, or else to completion.
    pub fn latency(&self) -> u64 {
        self.submission + self.drive + self.interrupt + self.idle_exit + self.waiting
    }

    fn array(&self) -> [u64; 5] {
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
    /// How many requests.
    pub requests: u64,
}

/// Latencies of some requests.
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
        sorted.sort_by_key(RequestTimes::latency);
        Self { times: sorted }
    }

    /// How many requests there are.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// Mean latency in ns; 0 without requests.
    pub fn mean(&self) -> f64 {
        self.mean_times().iter().sum()
    }

    /// Latency that this share of the requests does not exceed, in ns.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        self.at(share).map(RequestTimes::latency)
    }

    fn at(&self, share: f64) -> Option<&RequestTimes> {
        let rank = (self.times.len() as f64 * share).ceil() as usize;
        self.times.get(rank.saturating_sub(1)).or(self.times.last())
    }

    /// Mean parts over all requests.
    pub fn mean_times(&self) -> MeanTimes {
        mean_times(&self.times)
    }

    /// Mean parts over the requests within 3 % of a quantile.
    pub fn times_at(&self, share: f64) -> Option<MeanTimes> {
        let range = range_index(self.quantile(share)?);
        let begin = self
            .times
            .partition_point(|t| range_index(t.latency()) < range);
        let end = self
            .times
            .partition_point(|t| range_index(t.latency()) <= range);
        self.times.get(begin..end).map(mean_times)
    }

    /// The histogram.
    pub fn ranges(&self) -> Vec<LatencyRange> {
        let mut ranges: Vec<LatencyRange> = Vec::new();
        for times in &self.times {
            let index = range_index(times.latency());
            let low = range_start(index);
            match ranges.last_mut().filter(|last| last.low == low) {
                Some(last) => last.requests += 1,
                None => ranges.push(LatencyRange {
                    low,
                    high: range_start(index + 1) - 1,
                    requests: 1,
                }),
            }
        }
        ranges
    }
}

fn mean_times(times: &[RequestTimes]) -> MeanTimes {
    let mut sums = [0_u128; 5];
    for request in times {
        for (sum, part) in sums.iter_mut().zip(request.array()) {
            *sum += u128::from(part);
        }
    }
    sums.map(|sum| sum as f64 / times.len().max(1) as f64)
}

/// A latency's range: a range per value below `2^(RANGE_BITS + 1)`, then `2^RANGE_BITS` per doubling.
fn range_index(latency: u64) -> u64 {
    let octave = (64 - latency.leading_zeros()).saturating_sub(RANGE_BITS + 1);
    (u64::from(octave) << RANGE_BITS) + (latency >> octave)
}

/// The shortest latency of a range.
fn range_start(index: u64) -> u64 {
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
    pub fn new(request: &TracedRequest) -> Option<Self> {
        match request.met {
            MetState::Awake => Some(Self::Awake),
            MetState::State(state) => Some(Self::State(state)),
            MetState::Leaving | MetState::Behind | MetState::Unknown => None,
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
            let index = range_index(latency);
            let (low, next) = (range_start(index), range_start(index + 1));
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
        assert_eq!(summary.quantile(0.5), Some(1_000));
        assert_eq!(
            summary.times_at(0.99),
            Some([0.0, 1_000.0, 0.0, 9_000.0, 0.0])
        );
        assert_eq!(summary.times_at(0.5), Some([0.0, 1_000.0, 0.0, 0.0, 0.0]));
        assert!((summary.mean() - 1_180.0).abs() < 1e-9);
        let counts = summary
            .ranges()
            .iter()
            .map(|r| r.requests)
            .collect::<Vec<_>>();
        assert_eq!(counts, [98, 2]);
        assert_eq!(TracedLatencies::default().times_at(0.5), None);
    }
}
