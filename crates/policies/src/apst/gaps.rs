//! Idle gaps between a drive's requests, and the idle time before a power state that suits the gaps.

use wakepath_units::Nanoseconds;

/// A stretch of time in which a drive had requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPeriod {
    /// Issue of the first request.
    pub start: Nanoseconds,
    /// Completion of the last request, not before `start`.
    pub end: Nanoseconds,
    /// Number of requests issued in this time, at least 1.
    pub requests: u64,
}

/// Number of length classes of a drive's idle gaps: class n has gaps from 2^n to 2^(n+1) us, up to
/// 71 minutes.
pub const CLASSES: usize = 32;

/// Latency multiple that a drive must sleep for a transition to be worth it: 2 % of the time in
/// transitions, as in the kernel's legacy rule.
const WORTH: u64 = 50;
/// First class of idle gaps whose shortest gap, 1024 us, can be programmed: the APST table has
/// whole milliseconds.
const FIRST: usize = 10;

/// Histogram of a drive's idle gaps by length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveIdleGaps {
    /// Number of idle gaps in each length class.
    pub count: [u64; CLASSES],
    /// Total length of the idle gaps in each class, in us.
    pub total_us: [u64; CLASSES],
}

/// How long a drive is idle before it enters a power state, and what this idle time is predicted to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedTimeout {
    /// Idle time before the drive enters the state, in us.
    pub timeout_us: u64,
    /// Number of times that a request would have woken the drive up.
    pub wake_ups: u64,
    /// Time that the drive would have spent in the power state, in us.
    pub asleep_us: u64,
}

impl DriveIdleGaps {
    /// Adds `count` idle gaps of `us` us each. Gaps longer than 71 minutes count to the last class.
    pub fn add_gaps(&mut self, us: u64, count: u64) {
        let class = (us.max(1).ilog2() as usize).min(CLASSES - 1);
        self.count[class] += count;
        self.total_us[class] += us * count;
    }

    /// Number of idle gaps in all classes.
    pub fn total_count(&self) -> u64 {
        self.count.iter().sum()
    }

    /// Best idle time to wait before a state that takes `latency_us` to enter and leave: the drive
    /// sleeps longest, each transition costing 50 times the latency. `None`: the state never pays.
    pub fn choose_best_timeout(&self, latency_us: u64) -> Option<PredictedTimeout> {
        let cost_us = latency_us.saturating_mul(WORTH);
        (FIRST..CLASSES)
            .map(|class| self.predict_timeout_of_shortest_gap(class))
            .max_by_key(|timeout| {
                (
                    timeout.net_sleep_us(cost_us),
                    std::cmp::Reverse(timeout.timeout_us),
                )
            })
            .filter(|timeout| timeout.net_sleep_us(cost_us) > 0)
    }

    /// Effects on a drive of waiting for the shortest gap of a class before it enters a power
    /// state.
    fn predict_timeout_of_shortest_gap(&self, class: usize) -> PredictedTimeout {
        let timeout_us = 1_u64 << class;
        let wake_ups = self.count[class..].iter().sum::<u64>();
        let total_us = self.total_us[class..].iter().sum::<u64>();
        PredictedTimeout {
            timeout_us,
            wake_ups,
            asleep_us: total_us.saturating_sub(wake_ups * timeout_us),
        }
    }
}

impl PredictedTimeout {
    /// Time that the drive sleeps, less the cost of all transitions; negative where they cost more.
    fn net_sleep_us(&self, cost_us: u64) -> i128 {
        i128::from(self.asleep_us) - i128::from(self.wake_ups) * i128::from(cost_us)
    }

    /// Idle time in whole ms as an APST table holds it, rounded up.
    pub fn timeout_rounded_up_ms(&self) -> u64 {
        self.timeout_us.div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(lengths: &[(u64, u64)]) -> DriveIdleGaps {
        let mut gaps = DriveIdleGaps::default();
        for (us, count) in lengths {
            gaps.add_gaps(*us, *count);
        }
        gaps
    }

    fn timeout_ms(gaps: &DriveIdleGaps, latency_us: u64) -> Option<u64> {
        gaps.choose_best_timeout(latency_us)
            .map(|found| found.timeout_rounded_up_ms())
    }

    #[test]
    fn a_drive_sleeps_in_long_gaps_and_not_in_short_ones() {
        // Gaps of 5 ms and of 10 s: waiting out the short ones pays, and waiting longer does not.
        let mixed = gaps(&[(5_000, 10_000), (10_000_000, 20)]);
        let found = mixed.choose_best_timeout(4_000).unwrap();
        assert_eq!((found.timeout_rounded_up_ms(), found.wake_ups), (9, 20));
        assert_eq!(found.asleep_us, 20 * (10_000_000 - 8_192));
        // With cheap transitions, sleeping at once pays in every gap.
        assert_eq!(timeout_ms(&mixed, 10), Some(2));
        // Only short gaps: never.
        assert_eq!(timeout_ms(&gaps(&[(5_000, 10_000)]), 4_000), None);
        // Only long gaps: sleep at once.
        assert_eq!(timeout_ms(&gaps(&[(10_000_000, 200)]), 4_000), Some(2));
        assert_eq!(timeout_ms(&DriveIdleGaps::default(), 4_000), None);
    }

    #[test]
    fn lengths_at_the_ends_have_a_class() {
        let ends = gaps(&[(0, 1), (1, 1), (1 << 40, 1)]);
        assert_eq!((ends.count[0], ends.count[CLASSES - 1]), (2, 1));
        assert_eq!(ends.total_count(), 3);
    }
}
