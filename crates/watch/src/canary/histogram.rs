//! Latency histograms that can be weighted and added.

use std::collections::BTreeMap;

/// Upper end of a bucket without an upper end, as Prometheus' `+Inf`.
pub const NO_UPPER_END_NS: u64 = u64::MAX;

/// Request counts by latency bucket. Counts may be fractions, since hours get weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyHistogram {
    /// Counts by upper and lower end in ns, so that the order is ascending.
    counts: BTreeMap<(u64, u64), f64>,
}

impl LatencyHistogram {
    /// Adds `count` requests between two latencies in ns. A count that is negative or no number is left out.
    pub fn add_requests(&mut self, low_ns: u64, high_ns: u64, count: f64) {
        if count.is_finite() && count > 0.0 {
            *self
                .counts
                .entry((high_ns.max(low_ns), low_ns))
                .or_default() += count;
        }
    }

    /// Adds all requests of another histogram, each counted `weight` times.
    pub fn add_weighted(&mut self, other: &Self, weight: f64) {
        for ((high_ns, low_ns), count) in &other.counts {
            self.add_requests(*low_ns, *high_ns, count * weight);
        }
    }

    /// Number of requests.
    pub fn total(&self) -> f64 {
        self.counts.values().sum()
    }

    /// The latency in ns below which a share of the requests lies, interpolated within the bucket. `None` without
    /// requests. A bucket without an upper end counts with its lower end.
    pub fn quantile_ns(&self, share: f64) -> Option<f64> {
        let wanted = self.total() * share;
        let mut below = 0.0;
        let mut last = None;
        for ((high_ns, low_ns), count) in &self.counts {
            let (low, high) = (*low_ns as f64, *high_ns as f64);
            if *high_ns == NO_UPPER_END_NS {
                last = Some(low);
            } else if below + count >= wanted {
                return Some(low + (high - low) * ((wanted - below) / count).clamp(0.0, 1.0));
            } else {
                last = Some(high);
            }
            below += count;
        }
        last
    }

    /// Mean latency in ns by the middles of the buckets; `None` without requests.
    pub fn mean_ns(&self) -> Option<f64> {
        let total = self.total();
        let sum: f64 = self
            .counts
            .iter()
            .map(|((high_ns, low_ns), count)| {
                let high = if *high_ns == NO_UPPER_END_NS {
                    *low_ns
                } else {
                    *high_ns
                };
                count * f64::midpoint(*low_ns as f64, high as f64)
            })
            .sum();
        (total > 0.0).then(|| sum / total)
    }

    /// Whether a share of the requests reaches into the bucket without an upper end.
    pub fn reaches_unbounded_bucket(&self, share: f64) -> bool {
        let unbounded: f64 = self
            .counts
            .iter()
            .filter(|((high_ns, _), _)| *high_ns == NO_UPPER_END_NS)
            .map(|(_, count)| count)
            .sum();
        unbounded > self.total() * (1.0 - share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_comes_from_all_requests_and_is_no_mean_of_percentiles() {
        // A busy hour with fast requests, and a quiet hour with slow requests.
        let (mut busy, mut quiet) = (LatencyHistogram::default(), LatencyHistogram::default());
        busy.add_requests(100, 200, 9_990.0);
        quiet.add_requests(1_000, 2_000, 10.0);
        let mut both = busy.clone();
        both.add_weighted(&quiet, 1.0);
        let p99 = both.quantile_ns(0.99).unwrap();
        assert!((100.0..=200.0).contains(&p99), "{p99}");
        let mean_of_percentiles = f64::midpoint(
            busy.quantile_ns(0.99).unwrap(),
            quiet.quantile_ns(0.99).unwrap(),
        );
        assert!(mean_of_percentiles > 1_000.0);
    }

    #[test]
    fn the_last_bucket_has_no_end() {
        let mut histogram = LatencyHistogram::default();
        histogram.add_requests(0, 100, 90.0);
        histogram.add_requests(100, NO_UPPER_END_NS, 10.0);
        assert_eq!(histogram.quantile_ns(0.99), Some(100.0));
        assert!(histogram.reaches_unbounded_bucket(0.99));
        assert!(!histogram.reaches_unbounded_bucket(0.5));
        assert_eq!(histogram.mean_ns(), Some(55.0));
    }

    #[test]
    fn no_requests_have_no_percentile() {
        let mut histogram = LatencyHistogram::default();
        histogram.add_requests(0, 100, f64::NAN);
        histogram.add_requests(0, 100, -1.0);
        assert_eq!(histogram.quantile_ns(0.5), None);
        assert_eq!(histogram.mean_ns(), None);
    }
}
