//! Latencies of finished requests.

use hdrhistogram::Histogram;

use crate::observe::attribution::{Collector, bucket_of, lowest_of};

use crate::core::basics::Direction;
use crate::core::parts::Parts;
use crate::observe::batches::Batches;

/// Significant figures that the latency histogram keeps.
const FIGURES: u8 = 3;
/// Longest latency that the histogram tells from longer ones, in ns: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// The histogram's buckets per doubling, as a power of two.
const BITS: u32 = 10;

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Requests that do not count, because their process had just started (`ramp_time`).
    pub(crate) ramped: u64,
    /// Of reads and of writes, in ns.
    pub(crate) latency_sums: [u128; 2],
    /// Completion interrupts, and those of them on the CPU that had submitted.
    pub(crate) completions: u64,
    pub(crate) same_cpu: u64,
    /// Requests in each of the histogram's buckets, as far as there are any.
    latencies: Vec<u64>,
    pub(crate) parts: Collector,
    /// Latency through the run.
    pub(crate) batches: Batches,
}

impl Recorder {
    /// Takes note of a completion interrupt.
    pub(crate) fn completion(&mut self, on_same_cpu: bool) {
        self.completions += 1;
        self.same_cpu += u64::from(on_same_cpu);
    }

    /// Records a finished request by its latency in ns and the parts of that.
    #[inline(always)]
    pub(crate) fn request(
        &mut self,
        latency: u64,
        parts: &Parts,
        direction: Direction,
        bytes: u64,
    ) {
        match direction {
            Direction::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Direction::Write => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
        }
        self.latency_sums[direction as usize] += u128::from(latency);
        let bucket = bucket_of::<BITS>(latency);
        if bucket >= self.latencies.len() {
            self.latencies.resize(bucket + 1, 0);
        }
        self.latencies[bucket] += 1;
        self.parts.add(parts, latency);
    }

    /// The latencies in ns. That they are filled in now, bucket by bucket, gives the same histogram.
    pub(crate) fn histogram(&self) -> Histogram<u64> {
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
