//! Idle gaps between a drive's requests, and the idle time before a power state that suits the gaps.

/// Classes of gaps: from 2^n to 2^(n+1) us, up to 71 minutes.
pub const CLASSES: usize = 32;

/// A transition is worth it if the drive then sleeps for so many times its latency: 2 % of the time in transitions,
/// as the kernel's legacy rule has it.
const WORTH: u64 = 50;
/// The first class whose shortest gap, 1024 us, can be programmed: the table has whole milliseconds.
const FIRST: usize = 10;

/// How often a drive was idle for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Number of gaps by class.
    pub count: [u64; CLASSES],
    /// Total length by class, in us.
    pub total_us: [u64; CLASSES],
}

/// An idle time before a power state, with the predicted effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuitedTimeout {
    /// The idle time in us.
    pub timeout_us: u64,
    /// How often a request would have woken the drive up.
    pub wake_ups: u64,
    /// How long the drive would have been in the state, in us.
    pub asleep_us: u64,
}

impl Gaps {
    /// Adds `count` gaps of `us` us each. Longer ones than 71 minutes count to the last class.
    pub fn add(&mut self, us: u64, count: u64) {
        let class = (us.max(1).ilog2() as usize).min(CLASSES - 1);
        self.count[class] += count;
        self.total_us[class] += us * count;
    }

    /// Number of all gaps.
    pub fn count(&self) -> u64 {
        self.count.iter().sum()
    }

    /// The idle time to wait before a state that takes `latency_us` to enter and leave. It is the one with the most
    /// time asleep, less 50 times that latency for each transition. `None`: the state never pays.
    pub fn timeout(&self, latency_us: u64) -> Option<SuitedTimeout> {
        let cost = i128::from(latency_us.saturating_mul(WORTH));
        let of = |class: usize| {
            let timeout_us = 1_u64 << class;
            let wake_ups = self.count[class..].iter().sum::<u64>();
            let total_us = self.total_us[class..].iter().sum::<u64>();
            SuitedTimeout {
                timeout_us,
                wake_ups,
                asleep_us: total_us.saturating_sub(wake_ups * timeout_us),
            }
        };
        let gain =
            |one: &SuitedTimeout| i128::from(one.asleep_us) - i128::from(one.wake_ups) * cost;
        (FIRST..CLASSES)
            .map(of)
            .max_by_key(|one| (gain(one), std::cmp::Reverse(one.timeout_us)))
            .filter(|one| gain(one) > 0)
    }
}

impl SuitedTimeout {
    /// The idle time as the table has it: in ms, rounded up.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_us.div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(of: &[(u64, u64)]) -> Gaps {
        let mut gaps = Gaps::default();
        for (us, count) in of {
            gaps.add(*us, *count);
        }
        gaps
    }

    fn timeout_ms(gaps: &Gaps, latency_us: u64) -> Option<u64> {
        gaps.timeout(latency_us).map(|found| found.timeout_ms())
    }

    #[test]
    fn a_drive_sleeps_in_long_gaps_and_not_in_short_ones() {
        // Gaps of 5 ms and of 10 s: waiting out the short ones pays, and waiting longer does not.
        let mixed = gaps(&[(5_000, 10_000), (10_000_000, 20)]);
        let found = mixed.timeout(4_000).unwrap();
        assert_eq!((found.timeout_ms(), found.wake_ups), (9, 20));
        assert_eq!(found.asleep_us, 20 * (10_000_000 - 8_192));
        // With cheap transitions, sleeping at once pays in every gap.
        assert_eq!(timeout_ms(&mixed, 10), Some(2));
        // Only short gaps: never.
        assert_eq!(timeout_ms(&gaps(&[(5_000, 10_000)]), 4_000), None);
        // Only long gaps: sleep at once.
        assert_eq!(timeout_ms(&gaps(&[(10_000_000, 200)]), 4_000), Some(2));
        assert_eq!(timeout_ms(&Gaps::default(), 4_000), None);
    }

    #[test]
    fn lengths_at_the_ends_have_a_class() {
        let ends = gaps(&[(0, 1), (1, 1), (1 << 40, 1)]);
        assert_eq!((ends.count[0], ends.count[CLASSES - 1]), (2, 1));
        assert_eq!(ends.count(), 3);
    }
}
