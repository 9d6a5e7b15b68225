//! How long work takes at a speed.

use crate::core::basics::Cycles;

/// A speed in thousands of cycles on the biggest core a second.
///
/// Every request asks for several times, so the division is done by multiplication with the inverse, and put right by
/// the remainder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    khz: u64,
    /// 2^64 divided by `khz`, rounded down.
    inverse: u64,
}

impl Speed {
    pub(crate) fn new(khz: u32) -> Self {
        let khz = u64::from(khz.max(1));
        Self {
            khz,
            inverse: u64::MAX / khz,
        }
    }

    /// Time in ns for work, rounded down.
    #[inline]
    pub(crate) fn time(self, work: Cycles) -> u64 {
        self.divide(work * 1_000_000).0
    }

    /// Time in ns for work, rounded up.
    #[inline]
    pub(crate) fn time_rounded_up(self, work: Cycles) -> u64 {
        let (time, rest) = self.divide(work * 1_000_000);
        time + u64::from(rest > 0)
    }

    /// The work done in `time` ns, rounded down.
    pub(crate) fn work(self, time: u64) -> Cycles {
        (u128::from(time) * u128::from(self.khz) / 1_000_000) as Cycles
    }

    /// Quotient and remainder.
    #[inline]
    fn divide(self, number: u64) -> (u64, u64) {
        // Right, or too small by one.
        let quotient = ((u128::from(number) * u128::from(self.inverse)) >> 64) as u64;
        let rest = number - quotient * self.khz;
        if rest < self.khz {
            (quotient, rest)
        } else {
            (quotient + 1, rest - self.khz)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn division_by_the_inverse_is_division(number in any::<u64>(), khz in 1..=u32::MAX) {
            let divisor = u64::from(khz);
            let numbers = [number, number % divisor, number / divisor * divisor, u64::MAX, 0];
            for speed in [Speed::new(khz), Speed::new(1)] {
                for dividend in numbers.iter().flat_map(|n| [n.saturating_sub(1), *n]) {
                    prop_assert_eq!(speed.divide(dividend), (dividend / speed.khz, dividend % speed.khz));
                }
            }
        }
    }
}
