//! Latencies of finished requests.

use hdrhistogram::Histogram;

use crate::block::request::Request;
use crate::core::basics::Direction;
use crate::observe::attribution::{Collector, LatencyBucket, bucket_of, lowest_of};
use crate::observe::batches::{Batches, Drift};
use crate::observe::latency::{Latency, LatencyParts};

/// Significant figures that the latency histogram keeps.
const FIGURES: u8 = 3;
/// Longest latency that the histogram tells from longer ones, in ns: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// The histogram's buckets per doubling, as a power of two.
const BITS: u32 = 10;

/// Counts, latencies and parts of a run's requests. Arrays have reads before writes.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    requests: [u64; 2],
    bytes: [u64; 2],
    /// In ns.
    latency_sums: [u128; 2],
    warm_up: WarmUpCounts,
    /// Requests in each of the histogram's buckets, as far as there are any.
    latencies: Vec<u64>,
    parts: Collector,
    /// Latency through the run.
    batches: Batches,
}

/// What counts in a warm-up as well, and is taken off at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WarmUpCounts {
    /// Completion interrupts.
    completions: u64,
    /// Completion interrupts on the CPU that had submitted the request.
    same_cpu: u64,
    /// Requests that do not count, because their process had just started (`ramp_time`).
    ramped: u64,
}

impl Recorder {
    /// Requests count between two times, if all that count are known to lie there.
    pub(crate) fn expect_requests_between(&mut self, begin: u64, end: u64) {
        self.batches = Batches::between(begin, end);
    }

    /// Takes note of a completion interrupt.
    pub(crate) fn completion(&mut self, on_same_cpu: bool) {
        self.warm_up.completions += 1;
        self.warm_up.same_cpu += u64::from(on_same_cpu);
    }

    /// A request is back in user space now. It counts from `counts_from` on.
    #[inline(always)]
    pub(crate) fn finish(&mut self, request: &Request, now: u64, counts_from: u64) {
        let latency = request.latency(now);
        if now < counts_from {
            self.warm_up.ramped += 1;
            return;
        }
        self.batches.add(now, latency);
        let direction = request.direction as usize;
        self.requests[direction] += 1;
        self.bytes[direction] += request.bytes;
        self.latency_sums[direction] += u128::from(latency);
        let bucket = bucket_of::<BITS>(latency);
        if bucket >= self.latencies.len() {
            self.latencies.resize(bucket + 1, 0);
        }
        self.latencies[bucket] += 1;
        self.parts.add(request.parts(), latency);
    }

    /// What has been counted up to the end of a warm-up.
    pub(crate) fn warm_up_counts(&self) -> WarmUpCounts {
        self.warm_up
    }

    /// Takes off what was counted in the warm-up.
    pub(crate) fn leave_out(&mut self, before: WarmUpCounts) {
        self.warm_up.completions -= before.completions;
        self.warm_up.same_cpu -= before.same_cpu;
        self.warm_up.ramped -= before.ramped;
    }

    /// Requests that count: reads and writes.
    pub(crate) fn requests(&self) -> [u64; 2] {
        self.requests
    }

    /// Bytes of the reads and of the writes that count.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Requests that have ended, whether they count or not.
    pub(crate) fn finished(&self) -> u64 {
        self.requests.iter().sum::<u64>() + self.warm_up.ramped
    }

    /// Share of the completion interrupts on the CPU that had submitted the request.
    pub(crate) fn same_cpu_share(&self) -> f64 {
        self.warm_up.same_cpu as f64 / self.warm_up.completions.max(1) as f64
    }

    /// How latency changed within the run.
    pub(crate) fn drift(&self) -> Option<Drift> {
        self.batches.drift()
    }

    /// Requests by latency.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = LatencyBucket> {
        self.parts.buckets()
    }

    /// Mean latencies and percentiles.
    pub(crate) fn latency(&self) -> Latency {
        let histogram = self.histogram();
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let requests = histogram.len().max(1) as f64;
        Latency {
            mean: self.latency_sums.iter().sum::<u128>() as f64 / requests / 1e3,
            read_mean: self.mean_latency(Direction::Read),
            write_mean: self.mean_latency(Direction::Write),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        }
    }

    /// The mean parts of all requests, and of those at a percentile.
    pub(crate) fn latency_parts(&self) -> LatencyParts {
        LatencyParts {
            mean: self.parts.mean(),
            p50: self.parts.at_quantile(0.5),
            p90: self.parts.at_quantile(0.9),
            p99: self.parts.at_quantile(0.99),
            p999: self.parts.at_quantile(0.999),
        }
    }

    /// In us.
    fn mean_latency(&self, direction: Direction) -> f64 {
        let requests = self.requests[direction as usize].max(1);
        self.latency_sums[direction as usize] as f64 / requests as f64 / 1e3
    }

    /// The latencies in ns. That they are filled in now, bucket by bucket, gives the same histogram.
    fn histogram(&self) -> Histogram<u64> {
        #[expect(clippy::expect_used, reason = "the bounds are constants")]
        let mut histogram = Histogram::new_with_bounds(1, LONGEST, FIGURES).expect("valid bounds");
        for (bucket, requests) in self.latencies.iter().enumerate() {
            if *requests > 0 {
                histogram.saturating_record_n(lowest_of::<BITS>(bucket), *requests);
            }
        }
        histogram
    }
}
