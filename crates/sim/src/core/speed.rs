//! A CPU's speed, and how long work takes at that speed.

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

    /// Time in ns for `work` at this speed, rounded down.
    #[inline]
    pub(crate) fn time_rounded_down(self, work: Cycles) -> u64 {
        self.quotient_and_rest_by_khz(work * 1_000_000).0
    }

    /// Time in ns for `work` at this speed, rounded up.
    #[inline]
    pub(crate) fn time_rounded_up(self, work: Cycles) -> u64 {
        let (time, rest) = self.quotient_and_rest_by_khz(work * 1_000_000);
        time + u64::from(rest > 0)
    }

    /// Work in cycles done in `time` ns at this speed, rounded down.
    pub(crate) fn work_done_in(self, time: u64) -> Cycles {
        (u128::from(time) * u128::from(self.khz) / 1_000_000) as Cycles
    }

    /// Quotient and remainder.
    #[inline]
    fn quotient_and_rest_by_khz(self, number: u64) -> (u64, u64) {
        // The quotient estimated by the inverse is right, or too small by one.
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
                    prop_assert_eq!(speed.quotient_and_rest_by_khz(dividend), (dividend / speed.khz, dividend % speed.khz));
                }
            }
        }
    }
}
