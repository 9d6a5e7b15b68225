//! Idle gaps of a drive, and the idle time that suits them.

/// Classes of gaps: from 2^n to 2^(n+1) us, up to 71 minutes.
pub const CLASSES: usize = 32;

/// With fewer gaps they say nothing.
const ENOUGH: u64 = 100;
/// A transition is worth it if the drive then sleeps for so many times its latency: 2 % of the time in transitions,
/// as the kernel's legacy rule has it.
const WORTH: u64 = 50;

/// How often a drive was idle for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// Number of gaps by class.
    pub count: [u64; CLASSES],
    /// Their lengths added up, in us.
    pub total_us: [u64; CLASSES],
}

impl Gaps {
    /// The idle time in ms after which to enter a state that takes `latency_us` to enter and leave, so that the time
    /// asleep less what transitions have to earn is the most; `None`: too few gaps, or it never pays.
    pub fn timeout_ms(&self, latency_us: u64) -> Option<u64> {
        if self.count.iter().sum::<u64>() < ENOUGH {
            return None;
        }
        let cost = i128::from(latency_us.saturating_mul(WORTH));
        let gain = |class: usize| -> i128 {
            let waited = 1_i128 << class;
            (class..CLASSES)
                .map(|i| {
                    let count = i128::from(self.count[i]);
                    i128::from(self.total_us[i]) - count * (waited + cost)
                })
                .sum()
        };
        // Classes below a millisecond cannot be programmed: 1024 us is the first.
        let best = (10..CLASSES).max_by_key(|class| (gain(*class), std::cmp::Reverse(*class)))?;
        (gain(best) > 0).then(|| (1_u64 << best).div_ceil(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(of: &[(u64, u64)]) -> Gaps {
        let mut gaps = Gaps {
            count: [0; CLASSES],
            total_us: [0; CLASSES],
        };
        for (us, count) in of {
            let class = us.ilog2() as usize;
            gaps.count[class] += count;
            gaps.total_us[class] += us * count;
        }
        gaps
    }

    #[test]
    fn a_drive_sleeps_in_long_gaps_and_not_in_short_ones() {
        // Gaps of 5 ms and of 10 s: it pays to wait the short ones out, and not to wait any longer.
        let mixed = gaps(&[(5_000, 10_000), (10_000_000, 20)]);
        assert_eq!(mixed.timeout_ms(4_000), Some(9));
        // With cheap transitions it pays to sleep in all of them at once.
        assert_eq!(mixed.timeout_ms(10), Some(2));
        // Only short gaps: never.
        assert_eq!(gaps(&[(5_000, 10_000)]).timeout_ms(4_000), None);
        // Only long ones: at once.
        assert_eq!(gaps(&[(10_000_000, 200)]).timeout_ms(4_000), Some(2));
        assert_eq!(gaps(&[(10_000_000, 20)]).timeout_ms(4_000), None);
    }
}
