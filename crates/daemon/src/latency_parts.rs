//! Where the time of block requests went since the start, counted in fixed ranges for histograms of Prometheus.

use std::collections::{BTreeMap, HashMap};

use wakepath_explain::{
    Collected, RequestKind, RequestTimes, TracedRequest, explain_request_kinds,
};
use wakepath_trace::recording::Metadata;

/// Names of the parts of a request's latency, in the order of [`RequestTimes`].
pub const PART_NAMES: [&str; 5] = ["submission", "drive", "interrupt", "idle_exit", "waiting"];
/// Upper ends of the ranges in ns, each included: six per decade from 1 us to 1 s.
pub const RANGE_ENDS_NS: [u64; 37] = range_ends_ns();
/// Requests from which the cost of idle exits is estimated, at most, at a time.
const SAMPLE: usize = 20_000;
/// Slices after which a smaller sample is used.
const SAMPLE_SLICES: u32 = 10;

const fn range_ends_ns() -> [u64; 37] {
    let steps = [10, 15, 20, 30, 50, 70];
    let mut ends = [0; 37];
    let (mut index, mut decade) = (0, 100);
    while index < ends.len() {
        ends[index] = steps[index % steps.len()] * decade;
        index += 1;
        if index % steps.len() == 0 {
            decade *= 10;
        }
    }
    ends
}

/// Counts of times by range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeCounts {
    /// Number of times in each range of [`RANGE_ENDS_NS`]; the last is above all of them.
    counts: [u64; RANGE_ENDS_NS.len() + 1],
    /// Sum of the times in ns.
    sum_ns: u128,
}

impl Default for RangeCounts {
    fn default() -> Self {
        Self {
            counts: [0; RANGE_ENDS_NS.len() + 1],
            sum_ns: 0,
        }
    }
}

impl RangeCounts {
    fn add_time(&mut self, time_ns: u64) {
        let range = RANGE_ENDS_NS.partition_point(|end| *end < time_ns);
        if let Some(count) = self.counts.get_mut(range) {
            *count += 1;
        }
        self.sum_ns += u128::from(time_ns);
    }

    /// Number of times up to each end of [`RANGE_ENDS_NS`], in seconds, and the number of all times beside infinity.
    pub fn cumulative_by_seconds(&self) -> impl Iterator<Item = (f64, u64)> {
        let ends = RANGE_ENDS_NS.iter().map(|end| *end as f64 / 1e9);
        let ends = ends.chain([f64::INFINITY]);
        ends.zip(self.counts).scan(0, |total, (end, count)| {
            *total += count;
            Some((end, *total))
        })
    }

    /// Sum of the times in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }
}

/// Requests of a drive in a direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// From the bio until the waiting task ran, as far as known.
    pub whole: RangeCounts,
    /// Parts of this time, in the order of [`PART_NAMES`].
    pub parts: [RangeCounts; PART_NAMES.len()],
}

/// All requests that somebody waits for, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartCounts {
    /// By drive, and whether the requests write.
    pub requests: BTreeMap<(String, bool), RequestCounts>,
}

/// Requests that are alike: device, direction and size class.
type KindOfRequest = (u32, bool, u32);

/// Divides requests into parts, and counts them.
///
/// The cost of idle exits is estimated for each kind of requests from a sample, every ten seconds, and holds for the requests
/// that follow. Before the first estimate these exits count as the drive's.
#[derive(Debug, Default)]
pub struct PartsCounter {
    counts: PartCounts,
    sample: Vec<TracedRequest>,
    slices: u32,
    kinds: HashMap<KindOfRequest, RequestKind>,
}

impl PartsCounter {
    /// The counts since the start.
    pub const fn counts(&self) -> &PartCounts {
        &self.counts
    }

    /// Adds the requests of a slice.
    pub fn add_requests(&mut self, collected: &Collected, metadata: &Metadata) {
        for request in &collected.requests {
            if request.background {
                continue;
            }
            let times = match self.kinds.get(&kind_of_request(request)) {
                Some(kind) => RequestTimes::from_request(kind, request),
                None => RequestTimes::without_exit_estimate(request),
            };
            let drive = metadata.device_name_or_numbers(request.device);
            let counts = self
                .counts
                .requests
                .entry((drive, request.write))
                .or_default();
            counts.whole.add_time(times.latency_ns());
            for (part, time) in counts.parts.iter_mut().zip(times.in_field_order()) {
                part.add_time(time);
            }
        }
        let room = SAMPLE.saturating_sub(self.sample.len());
        let waited_for = collected.requests.iter().filter(|r| !r.background);
        self.sample.extend(waited_for.take(room));
        self.slices += 1;
        if self.slices >= SAMPLE_SLICES {
            self.slices = 0;
            self.estimate_exits_of_sample(metadata);
        }
    }

    /// Estimates the cost of idle exits anew. A kind without requests in the sample keeps its estimate.
    fn estimate_exits_of_sample(&mut self, metadata: &Metadata) {
        let sample = Collected {
            requests: std::mem::take(&mut self.sample),
            ..Collected::default()
        };
        for group in explain_request_kinds(&sample, None, metadata) {
            if let Some(first) = group.requests.first() {
                self.kinds.insert(kind_of_request(first), group.kind);
            }
        }
    }
}

fn kind_of_request(request: &TracedRequest) -> KindOfRequest {
    (request.device, request.write, request.size_class_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_rise_from_a_microsecond_to_a_second() {
        assert_eq!(RANGE_ENDS_NS[..3], [1_000, 1_500, 2_000]);
        assert_eq!(RANGE_ENDS_NS[36], 1_000_000_000);
        assert!(RANGE_ENDS_NS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_range_includes_its_end() {
        let mut counts = RangeCounts::default();
        for time in [1_000, 1_001, 1_500, 1_000_000_001] {
            counts.add_time(time);
        }
        let cumulative: Vec<(f64, u64)> = counts.cumulative_by_seconds().collect();
        assert_eq!(cumulative[0], (1e-6, 1));
        assert_eq!(cumulative[1], (1.5e-6, 3));
        assert_eq!(cumulative[36], (1.0, 3));
        assert_eq!(cumulative[37], (f64::INFINITY, 4));
    }
}
