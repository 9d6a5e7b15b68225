//! Does the CPU wake at regular intervals? The part of menu that does not look at timers.

/// How many intervals are remembered.
const REMEMBERED: usize = 8;
/// Fewer samples than this (three quarters) are no basis for anything but a very steady interval.
const ENOUGH: u64 = 6;
/// Marks an interval that does not count.
const NOT_COUNTED: i32 = -1;

/// The last eight measured idle intervals, in microseconds.
///
/// Their number, sum and sum of squares are kept up to date, so that mean and variance are at hand
/// without going over the intervals.
#[derive(Clone, Debug)]
pub(super) struct RecentIntervals {
    intervals: [i32; REMEMBERED],
    oldest: usize,
    totals: Totals,
}

#[derive(Clone, Copy, Debug)]
struct Totals {
    count: u64,
    sum: u64,
    /// Modulo 2^64. The squared deviations computed from it fit, whatever was lost on the way.
    squares: u64,
}

impl Totals {
    #[inline]
    fn add(&mut self, interval: i32) {
        let value = interval.max(0) as u64;
        self.count += u64::from(interval >= 0);
        self.sum += value;
        self.squares = self.squares.wrapping_add(value * value);
    }

    #[inline]
    fn remove(&mut self, interval: i32, times: u64) {
        let value = interval.max(0) as u64;
        self.count -= times * u64::from(interval >= 0);
        self.sum -= times * value;
        self.squares = self
            .squares
            .wrapping_sub((value * value).wrapping_mul(times));
    }

    /// Without an interval that counts.
    #[inline]
    fn without(self, interval: i32) -> Self {
        let value = interval as u64;
        Self {
            count: self.count - 1,
            sum: self.sum - value,
            squares: self.squares.wrapping_sub(value * value),
        }
    }

    /// These, if all intervals are about as long.
    ///
    /// They are if the standard deviation is at most 20 us or, given six samples or more, below a sixth of the mean.
    #[inline]
    fn if_steady(self) -> Option<Self> {
        if self.count == 0 {
            return None;
        }
        let mean = self.mean();
        let variance = self.deviations(mean) / self.count;
        let proportionate =
            self.count >= ENOUGH && variance <= u64::MAX / 36 && mean * mean > 36 * variance;
        (variance <= 400 || proportionate).then_some(self)
    }

    #[inline]
    fn mean(self) -> u64 {
        self.sum / self.count
    }

    /// Sum of the squared deviations from `mean`: below 2^64 for eight values below 2^31.
    #[inline]
    fn deviations(self, mean: u64) -> u64 {
        self.squares
            .wrapping_sub((2 * mean).wrapping_mul(self.sum))
            .wrapping_add((mean * mean).wrapping_mul(self.count))
    }
}

/// What intervals that are all zero say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AllZero {
    /// Expect a wake-up at once (Linux 6.1).
    IsAPattern,
    /// Nothing (Linux 6.12).
    SaysNothing,
}

impl RecentIntervals {
    pub(super) fn new() -> Self {
        Self {
            intervals: [0; REMEMBERED],
            oldest: 0,
            totals: Totals {
                count: REMEMBERED as u64,
                sum: 0,
                squares: 0,
            },
        }
    }

    /// Remembers an interval in place of the oldest. One of 2^31 us or more counts as "unknown".
    #[inline]
    pub(super) fn push(&mut self, us: u32) {
        let new = i32::try_from(us).unwrap_or(NOT_COUNTED);
        let slot = &mut self.intervals[self.oldest % REMEMBERED];
        self.totals.remove(*slot, 1);
        self.totals.add(new);
        *slot = new;
        self.oldest = (self.oldest + 1) % REMEMBERED;
    }

    /// The interval that repeats, if one does.
    ///
    /// If the intervals are not about as long, the longest of them are taken for outliers and left out, for as long
    /// as more than six samples remain (`get_typical_interval()`, `drivers/cpuidle/governors/menu.c`, Linux 6.1 and
    /// 6.12).
    #[inline]
    pub(super) fn typical(&self, zeros: AllZero) -> Option<u32> {
        let steady = if self.totals.count == REMEMBERED as u64 {
            // Known to the compiler, so that no division is one.
            let all = Totals {
                count: REMEMBERED as u64,
                ..self.totals
            };
            all.if_steady()
                .or_else(|| self.steady_without_outliers(all))
        } else {
            self.steady_among_few()
        }?;
        (steady.sum > 0 || zeros == AllZero::IsAPattern).then(|| steady.mean() as u32)
    }

    /// All but the one or two longest intervals, if these are steady.
    #[inline]
    fn steady_without_outliers(&self, all: Totals) -> Option<Totals> {
        let [longest, second] = self.two_longest();
        if longest == second {
            return self.steady_among_few();
        }
        let rest = all.without(longest);
        if let Some(steady) = rest.if_steady() {
            return Some(steady);
        }
        if self.times(second) > 1 {
            return self.steady_among_few();
        }
        rest.without(second).if_steady()
    }

    /// As many intervals as are steady, whether all count or not, and whether some are as long as others or not.
    #[inline(never)]
    fn steady_among_few(&self) -> Option<Totals> {
        let mut rest = self.totals;
        // Longer intervals are left out.
        let mut ceiling = i32::MAX;
        loop {
            if let Some(steady) = rest.if_steady() {
                return Some(steady);
            }
            if rest.count <= ENOUGH {
                return None;
            }
            let longest = self
                .intervals
                .iter()
                .map(|&i| if i <= ceiling { i } else { NOT_COUNTED })
                .fold(NOT_COUNTED, i32::max);
            ceiling = longest - 1;
            rest.remove(longest, self.times(longest));
        }
    }

    /// How many intervals are of this length.
    #[inline]
    fn times(&self, interval: i32) -> u64 {
        let equal = self.intervals.iter().map(|&i| i32::from(i == interval));
        equal.sum::<i32>() as u64
    }

    /// The longest interval and the second one, which may be as long.
    #[inline]
    fn two_longest(&self) -> [i32; 2] {
        // Pairs, then fours, then all: no comparison has to wait for more than a few others.
        let pair = |i: usize| {
            let [x, y] = [self.intervals[i], self.intervals[i + 1]];
            [x.max(y), x.min(y)]
        };
        let merge = |x: [i32; 2], y: [i32; 2]| [x[0].max(y[0]), x[0].min(y[0]).max(x[1].max(y[1]))];
        merge(merge(pair(0), pair(2)), merge(pair(4), pair(6)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(intervals: &[u32]) -> RecentIntervals {
        let mut recent = RecentIntervals::new();
        for &us in intervals {
            recent.push(us);
        }
        recent
    }

    /// The definition, straight from the sample values.
    fn by_definition(intervals: &[u32]) -> Option<u32> {
        let mut kept: Vec<i128> = intervals
            .iter()
            .filter(|&&i| i < 1 << 31)
            .map(|&i| i128::from(i))
            .collect();
        loop {
            let n = kept.len() as i128;
            if n == 0 {
                return None;
            }
            let mean = kept.iter().sum::<i128>() / n;
            let variance = kept.iter().map(|v| (v - mean) * (v - mean)).sum::<i128>() / n;
            if variance <= 400 || n >= 6 && mean * mean > 36 * variance {
                return Some(mean as u32);
            }
            if n <= 6 {
                return None;
            }
            let longest = kept.iter().copied().max().unwrap_or(0);
            kept.retain(|&v| v != longest);
        }
    }

    #[test]
    fn a_steady_interval_is_found_in_spite_of_two_outliers() {
        let recent = after(&[100, 101, 99, 5_000, 100, 100, 90_000, 100]);
        assert_eq!(recent.typical(AllZero::SaysNothing), Some(100));
    }

    #[test]
    fn scattered_intervals_have_no_pattern() {
        let recent = after(&[10, 900, 40, 5_000, 200, 70_000, 90_000, 1_000]);
        assert_eq!(recent.typical(AllZero::IsAPattern), None);
    }

    #[test]
    fn the_versions_differ_where_all_intervals_are_zero() {
        assert_eq!(after(&[]).typical(AllZero::IsAPattern), Some(0));
        assert_eq!(after(&[]).typical(AllZero::SaysNothing), None);
        let nearly = after(&[0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(nearly.typical(AllZero::SaysNothing), Some(0));
    }

    #[test]
    fn unknown_intervals_do_not_count() {
        let recent = after(&[u32::MAX; 8]);
        assert_eq!(recent.typical(AllZero::IsAPattern), None);
    }

    proptest! {
        #[test]
        fn running_totals_give_what_the_definition_gives(
            intervals in prop::collection::vec(
                prop_oneof![
                    0_u32..2_000,
                    90_u32..110,
                    any::<u32>(),
                    0x7fff_fff0_u32..0x8000_0010,
                ],
                8..40,
            )
        ) {
            let recent = after(&intervals);
            let last = &intervals[intervals.len() - 8..];
            prop_assert_eq!(recent.typical(AllZero::IsAPattern), by_definition(last));
        }
    }
}
