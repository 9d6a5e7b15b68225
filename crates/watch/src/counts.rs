//! Counts of latencies in narrow ranges.

use hdrhistogram::Histogram;

/// Decimal digits of a latency that a range keeps: ranges are at most 1 % wide.
const DIGITS: u8 = 2;
/// Longest latency in ns: an hour. A longer latency counts as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latency counts in ranges at most 1 % wide, with the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyCounts {
    /// `None` until the first latency is added.
    ranges: Option<Histogram<u64>>,
    sum_ns: u128,
}

impl Default for LatencyCounts {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyCounts {
    /// No latencies.
    pub const fn new() -> Self {
        Self {
            ranges: None,
            sum_ns: 0,
        }
    }

    /// Adds the latency of a request, in ns.
    pub fn add_latency(&mut self, latency_ns: u64) {
        let latency_ns = latency_ns.min(LONGEST_NS);
        if self.ranges.is_none() {
            self.ranges = Histogram::new(DIGITS).ok();
        }
        if let Some(ranges) = &mut self.ranges {
            // The histogram grows as needed: no value up to an hour is refused.
            if ranges.record(latency_ns).is_ok() {
                self.sum_ns += u128::from(latency_ns);
            }
        }
    }

    /// Adds all latencies of other counts.
    pub fn add_counts(&mut self, other: &Self) {
        let Some(theirs) = &other.ranges else {
            return;
        };
        self.sum_ns += other.sum_ns;
        match &mut self.ranges {
            // Both have the same digits, and grow as needed: nothing is refused.
            Some(ours) => drop(ours.add(theirs)),
            None => self.ranges = Some(theirs.clone()),
        }
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.ranges.as_ref().map_or(0, Histogram::len)
    }

    /// Sum of all latencies in ns.
    pub const fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Number of requests in ranges above the range with `latency_ns`.
    pub fn requests_above(&self, latency_ns: u64) -> u64 {
        self.ranges.as_ref().map_or(0, |ranges| {
            let up_to = latency_ns.min(LONGEST_NS);
            ranges.len() - ranges.count_between(0, up_to)
        })
    }

    /// Number of requests in ranges up to the range with `latency_ns`.
    pub fn requests_up_to(&self, latency_ns: u64) -> u64 {
        self.requests() - self.requests_above(latency_ns)
    }

    /// Shortest and longest latency, in ns, in the range with the request at this rank; the shortest latency has rank 1.
    /// `None` for rank 0 and for ranks above the number of requests.
    pub fn range_at_rank(&self, rank: u64) -> Option<(u64, u64)> {
        let ranges = self.ranges.as_ref()?;
        let mut counted = 0;
        for range in ranges.iter_recorded() {
            counted += range.count_since_last_iteration();
            if (1..=counted).contains(&rank) {
                let longest = range.value_iterated_to();
                return Some((ranges.lowest_equivalent(longest), longest));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count(latencies: &[u64]) -> LatencyCounts {
        let mut counts = LatencyCounts::new();
        for latency in latencies {
            counts.add_latency(*latency);
        }
        counts
    }

    #[test]
    fn a_latency_beyond_an_hour_counts_as_an_hour() {
        let counts = count(&[u64::MAX, 5]);
        assert_eq!(counts.requests(), 2);
        let (low, high) = counts.range_at_rank(2).unwrap();
        assert!((low..=high).contains(&LONGEST_NS), "{low} {high}");
        assert_eq!(counts.sum_ns(), u128::from(LONGEST_NS) + 5);
    }

    #[test]
    fn there_is_no_rank_without_a_request() {
        assert_eq!(LatencyCounts::new().range_at_rank(1), None);
        let counts = count(&[70]);
        assert_eq!(counts.range_at_rank(0), None);
        assert_eq!(counts.range_at_rank(1), Some((70, 70)));
        assert_eq!(counts.range_at_rank(2), None);
    }

    proptest! {
        #[test]
        fn each_rank_has_its_latency_in_a_narrow_range(
            mut latencies in prop::collection::vec(0_u64..20_000_000_000, 1..200),
            split in 0_usize..200,
        ) {
            let split = split.min(latencies.len());
            let mut counts = count(&latencies[..split]);
            counts.add_counts(&count(&latencies[split..]));
            latencies.sort_unstable();
            prop_assert_eq!(counts.requests(), latencies.len() as u64);
            for (rank, latency) in (1..).zip(&latencies) {
                let (low, high) = counts.range_at_rank(rank).unwrap();
                prop_assert!((low..=high).contains(latency), "{latency}: {low} to {high}");
                prop_assert!(high - low <= latency / 100, "{latency}: {low} to {high}");
            }
            let middle = latencies[latencies.len() / 2];
            let above = latencies.iter().filter(|latency| **latency > middle).count() as u64;
            prop_assert!(counts.requests_above(middle) <= above);
            prop_assert_eq!(counts.requests_above(middle) + counts.requests_up_to(middle), counts.requests());
        }
    }
}
