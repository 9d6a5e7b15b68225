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
    pub(crate) latency_sum: u128,
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
            latency_sum: 0,
            #[expect(clippy::expect_used, reason = "the bounds are constants")]
            latency: Histogram::new_with_bounds(1, LONGEST, FIGURES).expect("valid bounds"),
            parts: Collector::default(),
        }
    }
}

impl Recorder {
    /// Records a finished request by the parts of its latency.
    pub(crate) fn request(&mut self, parts: &Parts, direction: Direction, bytes: u64) {
        let latency = parts.total();
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
        self.latency_sum += u128::from(latency);
        self.latency.saturating_record(latency);
        self.parts.add(parts);
    }
}
