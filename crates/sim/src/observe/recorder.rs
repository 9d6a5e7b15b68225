//! Latencies of finished requests.

use hdrhistogram::Histogram;

use crate::block::request::Request;
use crate::core::basics::Direction;
use crate::observe::attribution::{
    Collector, LatencyBucket, bucket_index, lowest_latency_in_bucket,
};
use crate::observe::batches::{Batches, Drift};
use crate::observe::latency::{FsyncCalls, Latency, LatencyParts};

/// Decimal digits of precision in the latency histogram.
const FIGURES: u8 = 3;
/// Longest latency that the histogram tells from longer ones, in ns: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// The histogram's buckets per doubling, as a power of two.
const BITS: u32 = 10;

/// Stands for a request of no job.
pub(crate) const NO_JOB: usize = usize::MAX;

/// Most jobs that are counted by themselves: the counts of each take some 100 KiB.
const MOST_JOBS: usize = 256;

/// Counts and latencies of requests. Arrays have reads before writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestCounts {
    requests: [u64; 2],
    bytes: [u64; 2],
    /// In ns.
    latency_sums: [u128; 2],
    /// Number of finished requests by latency bucket, up to the longest latency seen.
    latencies: Vec<u64>,
}

/// Counts, latencies and latency parts of a run's requests.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    all: RequestCounts,
    warm_up: WarmUpCounts,
    parts: Collector,
    /// Durations of counted fsync calls, in ns; `None` without any.
    fsyncs: Option<Box<Histogram<u64>>>,
    /// Mean latency through the run, in batches of time.
    batches: Batches,
    /// Counts and latencies of each job; empty unless the workload has several.
    jobs: Vec<RequestCounts>,
}

/// Counts that begin before the warm-up's end, so that the warm-up's part is subtracted later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WarmUpCounts {
    /// Completion interrupts.
    completions: u64,
    /// Completion interrupts on the CPU that had submitted the request.
    same_cpu: u64,
    /// Requests left out of all figures, because they ended within their job's `ramp_time`.
    ramped: u64,
}

impl Recorder {
    /// Prepares counts of each job by itself, if there are several.
    pub(crate) fn prepare_counts_of_jobs(&mut self, jobs: usize) {
        if (2..=MOST_JOBS).contains(&jobs) {
            self.jobs = vec![RequestCounts::default(); jobs];
        }
    }

    /// Prepares batches of time for drift, if all counted requests end between two times.
    pub(crate) fn prepare_batches_between(&mut self, begin: u64, end: u64) {
        self.batches = Batches::between(begin, end);
    }

    /// Counts a completion interrupt, and whether it came to the submitting CPU.
    pub(crate) fn count_completion_interrupt(&mut self, on_same_cpu: bool) {
        self.warm_up.completions += 1;
        self.warm_up.same_cpu += u64::from(on_same_cpu);
    }

    /// Records a request that is back in user space now; before `counts_from`, the request is left out of all figures. `job` is
    /// the number of its job in the file, [`NO_JOB`] without one.
    #[inline(always)]
    pub(crate) fn record_finished_request(
        &mut self,
        request: &Request,
        now: u64,
        counts_from: u64,
        job: usize,
    ) {
        let latency = request.latency_if_ended_at(now);
        if now < counts_from {
            self.warm_up.ramped += 1;
            return;
        }
        self.batches.add_request(now, latency);
        self.all.add_request(request, latency);
        if let Some(own) = self.jobs.get_mut(job) {
            own.add_request(request, latency);
        }
        self.parts.add_request(request.attributed_parts(), latency);
    }

    /// Records a fsync call from `began` that is over now; before `counts_from`, the call is left out.
    #[cold]
    pub(crate) fn record_fsync_call(&mut self, began: u64, now: u64, counts_from: u64) {
        if now >= counts_from {
            let histogram = self.fsyncs.get_or_insert_with(|| Box::new(new_histogram()));
            histogram.saturating_record(now.saturating_sub(began));
        }
    }

    /// The fsync calls over so many seconds with counted requests; `None` without any.
    pub(crate) fn fsync_summary(&self, seconds: f64) -> Option<FsyncCalls> {
        let histogram = self.fsyncs.as_ref()?;
        Some(FsyncCalls {
            calls: histogram.len(),
            per_second: if seconds > 0.0 {
                histogram.len() as f64 / seconds
            } else {
                0.0
            },
            mean_us: histogram.mean() / 1e3,
            p99_us: histogram.value_at_quantile(0.99) as f64 / 1e3,
        })
    }

    /// The counts so far that include the warm-up, to be subtracted later.
    pub(crate) fn warm_up_counts(&self) -> WarmUpCounts {
        self.warm_up
    }

    /// Subtracts what was counted in the warm-up.
    pub(crate) fn subtract_warm_up(&mut self, before: WarmUpCounts) {
        self.warm_up.completions -= before.completions;
        self.warm_up.same_cpu -= before.same_cpu;
        self.warm_up.ramped -= before.ramped;
    }

    /// Number of counted reads, and of counted writes.
    pub(crate) fn counted_requests(&self) -> [u64; 2] {
        self.all.requests
    }

    /// Bytes of the counted reads, and of the counted writes.
    pub(crate) fn counted_bytes(&self) -> [u64; 2] {
        self.all.bytes
    }

    /// Counts and latencies of each job, in the order of the file; empty for a single job.
    pub(crate) fn jobs(&self) -> &[RequestCounts] {
        &self.jobs
    }

    /// Number of finished requests, those in a `ramp_time` included.
    pub(crate) fn finished_request_count(&self) -> u64 {
        self.all.requests.iter().sum::<u64>() + self.warm_up.ramped
    }

    /// Share of completion interrupts, 0 to 1, that came to the submitting CPU.
    pub(crate) fn same_cpu_share(&self) -> f64 {
        self.warm_up.same_cpu as f64 / self.warm_up.completions.max(1) as f64
    }

    /// Change of mean latency within the run; `None` if its requests are too few to tell.
    pub(crate) fn latency_drift(&self) -> Option<Drift> {
        self.batches.latency_drift()
    }

    /// Number of counted requests by latency, shortest first.
    pub(crate) fn latency_buckets(&self) -> impl Iterator<Item = LatencyBucket> {
        self.parts.latency_buckets()
    }

    /// Mean, percentiles and maximum of the counted requests' latency.
    pub(crate) fn latency_summary(&self) -> Latency {
        self.all.latency_summary()
    }

    /// Mean latency parts of all counted requests, and of the requests at each percentile.
    pub(crate) fn latency_parts(&self) -> LatencyParts {
        LatencyParts {
            mean: self.parts.mean_attribution(),
            p50: self.parts.attribution_at_quantile(0.5),
            p90: self.parts.attribution_at_quantile(0.9),
            p99: self.parts.attribution_at_quantile(0.99),
            p999: self.parts.attribution_at_quantile(0.999),
        }
    }
}

impl RequestCounts {
    #[inline(always)]
    fn add_request(&mut self, request: &Request, latency: u64) {
        let direction = request.direction as usize;
        self.requests[direction] += 1;
        self.bytes[direction] += request.bytes;
        self.latency_sums[direction] += u128::from(latency);
        let bucket = bucket_index::<BITS>(latency);
        if bucket >= self.latencies.len() {
            self.latencies.resize(bucket + 1, 0);
        }
        self.latencies[bucket] += 1;
    }

    /// Number of requests by latency, shortest first.
    pub(crate) fn latency_buckets(&self) -> impl Iterator<Item = LatencyBucket> {
        let used = self.latencies.iter().enumerate();
        used.filter(|(_, requests)| **requests > 0)
            .map(|(bucket, requests)| LatencyBucket {
                low: lowest_latency_in_bucket::<BITS>(bucket),
                high: lowest_latency_in_bucket::<BITS>(bucket + 1) - 1,
                requests: *requests,
            })
    }

    /// Number of reads, and of writes.
    pub(crate) fn requests(&self) -> [u64; 2] {
        self.requests
    }

    /// Bytes of the reads, and of the writes.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Mean, percentiles and maximum of the counted requests' latency.
    pub(crate) fn latency_summary(&self) -> Latency {
        let histogram = self.latency_histogram();
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let requests = histogram.len().max(1) as f64;
        Latency {
            mean: self.latency_sums.iter().sum::<u128>() as f64 / requests / 1e3,
            read_mean: self.mean_latency_us(Direction::Read),
            write_mean: self.mean_latency_us(Direction::Write),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        }
    }

    /// Mean latency of the requests in one direction, in us.
    fn mean_latency_us(&self, direction: Direction) -> f64 {
        let requests = self.requests[direction as usize].max(1);
        self.latency_sums[direction as usize] as f64 / requests as f64 / 1e3
    }

    /// Histogram of latencies in ns, filled from the buckets at once, with the same result as request by request.
    fn latency_histogram(&self) -> Histogram<u64> {
        let mut histogram = new_histogram();
        for (bucket, requests) in self.latencies.iter().enumerate() {
            if *requests > 0 {
                histogram.saturating_record_n(lowest_latency_in_bucket::<BITS>(bucket), *requests);
            }
        }
        histogram
    }
}

/// An empty histogram of times in ns.
fn new_histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "the bounds are constants")]
    Histogram::new_with_bounds(1, LONGEST, FIGURES).expect("valid bounds")
}
