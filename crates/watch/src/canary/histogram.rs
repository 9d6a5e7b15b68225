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

    /// The latency in ns below which a share of the requests lies, with these spread evenly within the bucket. `None` without
    /// requests. A bucket without an upper end counts with its lower end.
    pub fn quantile_ns(&self, share: f64) -> Option<f64> {
        Some(self.find_quantile(share)?.evenly_spread_ns())
    }

    /// The bucket with a quantile, and the latencies that the quantile may be. `None` without requests.
    pub(crate) fn find_quantile(&self, share: f64) -> Option<BucketedQuantile> {
        let total = self.total();
        let wanted = total * share;
        let (mut below, mut last) = (0.0, None);
        for (index, ((high_ns, low_ns), count)) in self.counts.iter().enumerate() {
            let (low, high) = (*low_ns as f64, *high_ns as f64);
            if *high_ns == NO_UPPER_END_NS {
                last = Some(BucketedQuantile::at_point(low));
            } else if below + count >= wanted {
                // Half a request stands for a share of none, which has no logarithm.
                let above = [below, below + count].map(|n| f64::max(total - n, 0.5));
                return Some(BucketedQuantile {
                    bucket_ns: [low, high],
                    by_shape_ns: latencies_by_shape(
                        [low, high],
                        ((wanted - below) / count).clamp(0.0, 1.0),
                        above,
                        total - wanted,
                    ),
                    is_in_falling_tail: self.is_in_falling_tail(index),
                });
            } else {
                last = Some(BucketedQuantile::at_point(high));
            }
            below += count;
        }
        last
    }

    /// Whether requests per ns fall from the bucket before to this bucket, and to the next.
    fn is_in_falling_tail(&self, index: usize) -> bool {
        let mut around = self.counts.iter().skip(index.saturating_sub(1)).peekable();
        let Some((before, here)) = around.next().zip(around.next()).filter(|_| index > 0) else {
            return false;
        };
        let next = around.next().map_or(0.0, density_per_ns);
        // An empty bucket is not among the counts, so that the bucket before may be farther away.
        let touches = before.0.0 >= here.0.1;
        touches && density_per_ns(before) >= density_per_ns(here) && density_per_ns(here) >= next
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

/// Width of a narrow bucket as a share of its lower end. Buckets of wakepath's own results are narrower: 1/32.
const NARROW_BUCKET: f64 = 0.05;

/// A quantile of a histogram, which says how many requests a bucket has, and not where in the bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BucketedQuantile {
    /// Ends of the bucket in ns.
    pub(crate) bucket_ns: [f64; 2],
    /// The quantile in ns if the bucket's requests are spread evenly, thin out exponentially, or by a power law.
    pub(crate) by_shape_ns: [f64; 3],
    /// Requests thin out over this bucket and its neighbours, so that one of the shapes may hold.
    pub(crate) is_in_falling_tail: bool,
}

impl BucketedQuantile {
    /// Whether the bucket is so narrow that the place in the bucket matters little. Each machine's error is another, so that means
    /// over machines lose most of these errors.
    pub(crate) fn is_in_narrow_bucket(&self) -> bool {
        let [low, high] = self.bucket_ns;
        high <= low * (1.0 + NARROW_BUCKET)
    }

    const fn at_point(ns: f64) -> Self {
        Self {
            bucket_ns: [ns; 2],
            by_shape_ns: [ns; 3],
            is_in_falling_tail: true,
        }
    }

    /// The quantile in ns if the bucket's requests are spread evenly.
    pub(crate) const fn evenly_spread_ns(&self) -> f64 {
        self.by_shape_ns[0]
    }
}

/// Latencies that `above_quantile` requests are above, by the shape of the bucket between two ends; `above` are the requests above
/// either end, and `share` is the quantile's place among the bucket's requests.
fn latencies_by_shape(
    [low, high]: [f64; 2],
    share: f64,
    above: [f64; 2],
    above_quantile: f64,
) -> [f64; 3] {
    let even = low + (high - low) * share;
    let decay = (above[0] / above[1]).ln();
    let way = if decay > 0.0 {
        ((above[0] / above_quantile.max(0.5)).ln() / decay).clamp(0.0, 1.0)
    } else {
        share
    };
    let exponential = low + (high - low) * way;
    // A power law has no place at 0.
    let power = if low > 0.0 {
        low * (high / low).powf(way)
    } else {
        exponential
    };
    [even, exponential, power]
}

/// Requests per ns of a bucket; none for a bucket without an upper end.
fn density_per_ns(((high_ns, low_ns), count): (&(u64, u64), &f64)) -> f64 {
    if *high_ns == NO_UPPER_END_NS {
        return 0.0;
    }
    count / high_ns.saturating_sub(*low_ns).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of 100,000 requests whose latency is log-normal with this median in us and a spread of 0.4.
    fn log_normal(median_us: f64) -> LatencyHistogram {
        use statrs::distribution::{ContinuousCDF, LogNormal};
        let latency = LogNormal::new(median_us.ln(), 0.4).unwrap();
        let mut histogram = LatencyHistogram::default();
        let ends = [0, 50, 100, 150, 200, 300, 500, 1000, 5000];
        for pair in ends.windows(2) {
            let share = latency.cdf(f64::from(pair[1])) - latency.cdf(f64::from(pair[0]));
            let [low, high] = [pair[0], pair[1]].map(|us| us as u64 * 1000);
            histogram.add_requests(low, high, share * 1e5);
        }
        histogram
    }

    #[test]
    fn the_shapes_of_a_wide_bucket_hold_a_change_between_them_to_a_tenth_of_a_percent() {
        for median_us in [120.0, 150.0, 180.0, 190.0, 240.0] {
            let [before, after] = [median_us, median_us * 1.08].map(|median| {
                let quantile = log_normal(median).find_quantile(0.99).unwrap();
                assert!(quantile.is_in_falling_tail, "{median}");
                quantile.by_shape_ns
            });
            let ratios = [0, 1, 2].map(|shape| after[shape] / before[shape]);
            let [low, high] = [f64::min, f64::max].map(|f| ratios.into_iter().reduce(f).unwrap());
            assert!(low <= 1.081 && high >= 1.079, "{median_us}: {ratios:?}");
        }
    }

    #[test]
    fn a_bucket_with_more_than_its_neighbours_has_no_known_shape() {
        let mut histogram = LatencyHistogram::default();
        histogram.add_requests(100_000, 200_000, 900.0);
        histogram.add_requests(200_000, 300_000, 10.0);
        histogram.add_requests(300_000, 400_000, 90.0);
        for (share, falls) in [(0.5, false), (0.905, false), (0.99, false)] {
            let quantile = histogram.find_quantile(share).unwrap();
            assert_eq!(quantile.is_in_falling_tail, falls, "{share}");
        }
        // A bucket apart from the others begins anew.
        histogram.add_requests(600_000, 700_000, 10.0);
        assert!(!histogram.find_quantile(0.995).unwrap().is_in_falling_tail);
    }

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
