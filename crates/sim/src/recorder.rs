//! Latencies of finished requests.

use hdrhistogram::Histogram;

use crate::attribution::{Collector, Parts};
use crate::drive::Direction;

/// Significant figures that the latency histogram keeps.
const FIGURES: u8 = 3;
/// Longest latency that the histogram tells from longer ones, in ns: an hour.
const LONGEST: u64 = 3_600_000_000_000;

#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Of reads and of writes, in ns.
    pub(crate) latency_sums: [u128; 2],
    /// Completion interrupts, and those of them on the CPU that had submitted.
    pub(crate) completions: u64,
    pub(crate) same_cpu: u64,
    pub(crate) latency: Histogram<u64>,
    pub(crate) parts: Collector,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            reads: 0,
            writes: 0,
            read_bytes: 0,
            written_bytes: 0,
            latency_sums: [0; 2],
            completions: 0,
            same_cpu: 0,
            #[expect(clippy::expect_used, reason = "the bounds are constants")]
            latency: Histogram::new_with_bounds(1, LONGEST, FIGURES).expect("valid bounds"),
            parts: Collector::default(),
        }
    }
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
        self.latency.saturating_record(latency);
        self.parts.add(parts, latency);
    }
}
