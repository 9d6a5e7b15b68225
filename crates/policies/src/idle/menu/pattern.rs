//! Does the CPU wake at regular intervals? The part of menu that does not look at timers
//! (`get_typical_interval()`, `drivers/cpuidle/governors/menu.c`).

use super::generations::{Outliers, Scattered};

/// Number of idle intervals that menu remembers.
const REMEMBERED: usize = 8;
/// Least number of intervals, three quarters, for any pattern but a very steady interval.
const ENOUGH: u64 = 6;
/// Least number of scattered intervals whose longest says something.
const ENOUGH_SCATTERED: u64 = 4;
/// Marks an unknown idle interval.
const UNKNOWN: u32 = u32::MAX;

/// The last eight measured idle intervals, in microseconds.
///
/// Their number, sum and sum of squares are kept up to date, so that mean and variance are at hand
/// without going over the intervals.
#[derive(Clone, Debug)]
pub(super) struct RecentIntervals {
    intervals: [u32; REMEMBERED],
    oldest: usize,
    totals: Totals,
}

#[derive(Clone, Copy, Debug)]
struct Totals {
    count: u64,
    sum: u64,
    /// Sum of the intervals' squares, modulo 2^64 as in the kernel.
    squares: u64,
}

impl Totals {
    #[inline]
    fn add_interval(&mut self, interval: u32) {
        let counts = interval != UNKNOWN;
        let value = if counts { u64::from(interval) } else { 0 };
        self.count += u64::from(counts);
        self.sum += value;
        self.squares = self.squares.wrapping_add(value * value);
    }

    #[inline]
    fn remove_interval(&mut self, interval: u32) {
        let counts = interval != UNKNOWN;
        let value = if counts { u64::from(interval) } else { 0 };
        self.count -= u64::from(counts);
        self.sum -= value;
        self.squares = self.squares.wrapping_sub(value * value);
    }

    /// Totals without `times` intervals of a given length.
    #[inline]
    fn without_intervals(self, interval: u32, times: u64) -> Self {
        let value = u64::from(interval);
        Self {
            count: self.count - times,
            sum: self.sum - times * value,
            squares: self
                .squares
                .wrapping_sub((value * value).wrapping_mul(times)),
        }
    }

    #[inline]
    fn mean_interval(self) -> u64 {
        self.divide_by_count(self.sum)
    }

    /// `total` divided by the number of intervals. Division by a constant is quick.
    #[inline]
    fn divide_by_count(self, total: u64) -> u64 {
        match self.count {
            8 => total / 8,
            7 => total / 7,
            6 => total / 6,
            count => total / count.max(1),
        }
    }

    /// Whether all intervals are about as long: the standard deviation is at most 20 us or, given
    /// six samples or more, below a sixth of the mean.
    #[inline]
    fn is_steady(self, mean: u64, variance: u64) -> bool {
        let proportionate =
            self.count >= ENOUGH && variance <= u64::MAX / 36 && mean * mean > 36 * variance;
        variance <= 400 || proportionate
    }

    /// Mean of the intervals: `Ok` if they are about as long, `Err` otherwise. Like the kernel,
    /// compares the difference of two truncated numbers, one modulo 2^64.
    #[inline]
    fn mean_if_steady(self) -> Result<u64, u64> {
        let mean = self.mean_interval();
        let variance = self.divide_by_count(self.squares).wrapping_sub(mean * mean);
        if self.is_steady(mean, variance) {
            Ok(mean)
        } else {
            Err(mean)
        }
    }

    /// Interval that repeats, given that the intervals are about as long; `None` if all are 0 and
    /// zeros do not count.
    #[inline]
    fn repeated_interval(self, zeros_repeat: bool) -> Option<u32> {
        (self.sum > 0 || zeros_repeat).then(|| self.mean_interval() as u32)
    }

    /// These totals, if the intervals are about as long by the mean of squared deviations.
    #[inline]
    fn if_steady(self) -> Option<Self> {
        if self.count == 0 {
            return None;
        }
        let mean = self.mean_interval();
        // The sum of squared deviations stays below 2^64 for eight values below 2^31, whatever was
        // lost on the way.
        let deviations = self
            .squares
            .wrapping_sub((2 * mean).wrapping_mul(self.sum))
            .wrapping_add((mean * mean).wrapping_mul(self.count));
        self.is_steady(mean, self.divide_by_count(deviations))
            .then_some(self)
    }
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

    /// Replaces the oldest remembered interval by `us` microseconds. A length above `longest`
    /// counts as unknown.
    #[inline]
    pub(super) fn push_interval(&mut self, us: u32, longest: u32) {
        let new = if us <= longest { us } else { UNKNOWN };
        let slot = &mut self.intervals[self.oldest % REMEMBERED];
        self.totals.remove_interval(*slot);
        self.totals.add_interval(new);
        *slot = new;
        self.oldest = (self.oldest + 1) % REMEMBERED;
    }

    /// Replaces the oldest remembered interval by an unknown one.
    #[inline]
    pub(super) fn push_unknown(&mut self) {
        self.push_interval(UNKNOWN, UNKNOWN);
    }

    /// Finds the idle interval that repeats, if any.
    ///
    /// If the intervals are not about as long, one is taken for an outlier and left out: the shortest or the longest
    /// of those left, whichever is farther from their mean. That goes on while more than six samples remain (Linux
    /// 6.15 to 7.3).
    #[inline]
    pub(super) fn find_typical_without_farthest(&self, scattered: Scattered) -> Option<u32> {
        if self.totals.count == REMEMBERED as u64 {
            // A count that is constant at compile time avoids divisions.
            let all = Totals {
                count: REMEMBERED as u64,
                ..self.totals
            };
            // Nothing but zeros.
            if all.sum == 0 {
                return None;
            }
            if let Ok(mean) = all.mean_if_steady() {
                return Some(mean as u32);
            }
            return self.find_typical_of_unsteady(scattered);
        }
        self.search_without_farthest(scattered).0
    }

    /// Like [`Self::find_typical_without_farthest`], if all intervals are known and differ.
    #[inline(never)]
    fn find_typical_of_unsteady(&self, scattered: Scattered) -> Option<u32> {
        let mut rest = self.totals;
        let mut mean = rest.sum / REMEMBERED as u64;
        let mut bounds = (0, UNKNOWN - 1);
        // At most two outliers are removed, one after the other.
        for left in [REMEMBERED as u64 - 1, ENOUGH] {
            let outlier = self.take_farthest_from_mean(mean, &mut bounds);
            if self.count_equal(outlier) > 1 {
                return self.search_without_farthest(scattered).0;
            }
            rest = rest.without_intervals(outlier, 1);
            // Nothing but zeros.
            if rest.sum == 0 {
                return None;
            }
            rest.count = left;
            mean = match rest.mean_if_steady() {
                Ok(mean) => return Some(mean as u32),
                Err(mean) => mean,
            };
        }
        match scattered {
            Scattered::Nothing => None,
            Scattered::Longest => Some(self.shortest_and_longest(bounds.0, bounds.1).1),
        }
    }

    /// The shortest or longest interval within the bounds, whichever is farther from the mean; the
    /// bounds shrink to exclude it.
    #[inline]
    fn take_farthest_from_mean(&self, mean: u64, bounds: &mut (u32, u32)) -> u32 {
        let (least, greatest) = self.shortest_and_longest(bounds.0, bounds.1);
        if mean - u64::from(least) > u64::from(greatest) - mean {
            bounds.0 = least + 1;
            least
        } else {
            bounds.1 = greatest - 1;
            greatest
        }
    }

    /// Like [`Self::find_typical_without_farthest`], however many intervals are known and left out. Also
    /// returns how often the search goes over the intervals.
    #[inline(never)]
    fn search_without_farthest(&self, scattered: Scattered) -> (Option<u32>, u32) {
        let mut rest = self.totals;
        let mut bounds = (0, UNKNOWN - 1);
        let mut rounds = 1;
        loop {
            // The search ends without a pattern when nothing is left, or nothing but zeros.
            if rest.sum == 0 {
                return (None, rounds);
            }
            let mean = match rest.mean_if_steady() {
                Ok(mean) => return (Some(mean as u32), rounds),
                Err(mean) => mean,
            };
            if rest.count <= ENOUGH {
                let enough = scattered == Scattered::Longest && rest.count >= ENOUGH_SCATTERED;
                let longest = enough.then(|| self.shortest_and_longest(bounds.0, bounds.1).1);
                return (longest, rounds);
            }
            let outlier = self.take_farthest_from_mean(mean, &mut bounds);
            rest = rest.without_intervals(outlier, self.count_equal(outlier));
            rounds += 1;
        }
    }

    /// Shortest and longest remembered interval within these bounds.
    #[inline]
    fn shortest_and_longest(&self, shortest: u32, longest: u32) -> (u32, u32) {
        self.intervals
            .iter()
            .fold((u32::MAX, 0), |(least, greatest), &us| {
                let within = us >= shortest && us <= longest;
                (
                    least.min(if within { us } else { u32::MAX }),
                    greatest.max(if within { us } else { 0 }),
                )
            })
    }

    /// Finds the idle interval that repeats, if any.
    ///
    /// If the intervals are not about as long, the longest of them are taken for outliers and left out, for as long
    /// as more than six samples remain (Linux 6.1 to 6.14).
    #[inline(always)]
    pub(super) fn find_typical_without_longest(
        &self,
        scattered: Scattered,
        zeros_repeat: bool,
    ) -> Option<u32> {
        if self.totals.count != REMEMBERED as u64 {
            return self.search_without_longest(scattered, zeros_repeat).0;
        }
        // A count that is constant at compile time avoids divisions.
        let all = Totals {
            count: REMEMBERED as u64,
            ..self.totals
        };
        if let Some(steady) = all.if_steady() {
            return steady.repeated_interval(zeros_repeat);
        }
        let [longest, second] = self.two_longest_intervals();
        if longest == second {
            return self.search_without_longest(scattered, zeros_repeat).0;
        }
        let rest = all.without_intervals(longest, 1);
        if let Some(steady) = rest.if_steady() {
            return steady.repeated_interval(zeros_repeat);
        }
        if self.count_equal(second) > 1 {
            return self.search_without_longest(scattered, zeros_repeat).0;
        }
        let rest = rest.without_intervals(second, 1);
        match rest.if_steady() {
            Some(steady) => steady.repeated_interval(zeros_repeat),
            None => self.longest_if_scattered(rest, second.saturating_sub(1), scattered),
        }
    }

    /// Like [`Self::find_typical_without_longest`], whether all intervals are known or not, and whether
    /// some are as long as others or not. Also returns how often the search goes over the
    /// intervals.
    #[inline(never)]
    fn search_without_longest(
        &self,
        scattered: Scattered,
        zeros_repeat: bool,
    ) -> (Option<u32>, u32) {
        let mut rest = self.totals;
        // Intervals above the ceiling are left out as outliers.
        let mut ceiling = UNKNOWN - 1;
        let mut rounds = 1;
        loop {
            if let Some(steady) = rest.if_steady() {
                return (steady.repeated_interval(zeros_repeat), rounds);
            }
            if rest.count <= ENOUGH {
                return (self.longest_if_scattered(rest, ceiling, scattered), rounds);
            }
            let (_, longest) = self.shortest_and_longest(0, ceiling);
            ceiling = longest.saturating_sub(1);
            rest = rest.without_intervals(longest, self.count_equal(longest));
            rounds += 1;
        }
    }

    /// Number of passes over the intervals that the kernel needs to find a repeated one: one more
    /// for each length left out.
    pub(super) fn search_passes(&self, outliers: Outliers) -> u32 {
        match outliers {
            Outliers::Longest => self.search_without_longest(Scattered::Nothing, false).1,
            Outliers::Farthest => self.search_without_farthest(Scattered::Nothing).1,
        }
    }

    /// Longest interval up to `ceiling`, as the prediction from scattered intervals; `None` if too
    /// few are left.
    #[inline]
    fn longest_if_scattered(
        &self,
        rest: Totals,
        ceiling: u32,
        scattered: Scattered,
    ) -> Option<u32> {
        let enough = scattered == Scattered::Longest && rest.count >= ENOUGH_SCATTERED;
        enough.then(|| self.shortest_and_longest(0, ceiling).1)
    }

    /// Number of remembered intervals with this length.
    #[inline]
    fn count_equal(&self, interval: u32) -> u64 {
        let equal = self.intervals.iter().map(|&i| u32::from(i == interval));
        u64::from(equal.sum::<u32>())
    }

    /// Longest and second-longest of all remembered intervals, possibly equal.
    #[inline]
    fn two_longest_intervals(&self) -> [u32; 2] {
        // Maxima of pairs, then of fours, then of all: no comparison waits for more than a few
        // others.
        let us = &self.intervals;
        two_longest_of_pairs(
            two_longest_of_pairs(sort_descending(us[0], us[1]), sort_descending(us[2], us[3])),
            two_longest_of_pairs(sort_descending(us[4], us[5]), sort_descending(us[6], us[7])),
        )
    }
}

#[inline(always)]
fn sort_descending(x: u32, y: u32) -> [u32; 2] {
    [x.max(y), x.min(y)]
}

/// The two longest of two pairs, each with the longer interval first.
#[inline(always)]
fn two_longest_of_pairs([x, x_second]: [u32; 2], [y, y_second]: [u32; 2]) -> [u32; 2] {
    [x.max(y), x.min(y).max(x_second.max(y_second))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD_LONGEST: u32 = i32::MAX as u32;

    fn after(intervals: &[u32], longest: u32) -> RecentIntervals {
        let mut recent = RecentIntervals::new();
        for &us in intervals {
            recent.push_interval(us, longest);
        }
        recent
    }

    /// Intervals that are not too long to count.
    fn known_intervals(intervals: &[u32], longest: u32) -> Vec<i128> {
        let known = intervals.iter().filter(|us| **us <= longest);
        known.map(|us| i128::from(*us)).collect()
    }

    fn old(intervals: &[u32], zeros_repeat: bool) -> Option<u32> {
        after(intervals, OLD_LONGEST).find_typical_without_longest(Scattered::Nothing, zeros_repeat)
    }

    fn new(intervals: &[u32], scattered: Scattered) -> Option<u32> {
        after(intervals, u32::MAX - 1).find_typical_without_farthest(scattered)
    }

    #[test]
    fn each_length_that_is_left_out_is_a_round_more() {
        let rounds =
            |intervals: [u32; 8], outliers| after(&intervals, OLD_LONGEST).search_passes(outliers);
        let steady = [80; 8];
        let one_short = [80, 80, 80, 10, 80, 80, 80, 80];
        let one_longer = [80, 80, 81, 10, 80, 80, 80, 80];
        for (intervals, longest, farthest) in [
            (steady, 1, 1),
            // All that are equal are left out at once.
            (one_short, 2, 2),
            (one_longer, 3, 2),
            ([10, 500, 3000, 90, 700, 20, 4000, 1000], 3, 3),
        ] {
            assert_eq!(
                rounds(intervals, Outliers::Longest),
                longest,
                "{intervals:?}"
            );
            assert_eq!(
                rounds(intervals, Outliers::Farthest),
                farthest,
                "{intervals:?}"
            );
        }
    }

    /// The definition, straight from the sample values; the spread is that which the generation reckons with.
    fn by_definition(
        kept: Vec<i128>,
        scattered: Scattered,
        zeros_repeat: bool,
        spread: impl Fn(&[i128]) -> i128,
        outlier: impl Fn(&[i128], i128) -> i128,
    ) -> Option<u32> {
        let mut kept = kept;
        loop {
            let n = kept.len() as i128;
            if n == 0 {
                return None;
            }
            let mean = kept.iter().sum::<i128>() / n;
            let variance = spread(&kept);
            let proportionate =
                n >= 6 && variance <= i128::from(u64::MAX / 36) && mean * mean > 36 * variance;
            if variance <= 400 || proportionate {
                let says_something = zeros_repeat || kept.iter().any(|&us| us > 0);
                return says_something.then_some(mean as u32);
            }
            if n <= 6 {
                let longest = kept.iter().max().map(|&us| us as u32);
                return longest.filter(|_| n >= 4 && scattered == Scattered::Longest);
            }
            let out = outlier(&kept, mean);
            kept.retain(|&v| v != out);
        }
    }

    fn deviations_from_the_mean(kept: &[i128]) -> i128 {
        let n = kept.len() as i128;
        let mean = kept.iter().sum::<i128>() / n;
        kept.iter().map(|v| (v - mean) * (v - mean)).sum::<i128>() / n
    }

    /// Computed in 64 bits without sign, as in the kernel.
    fn mean_square_less_squared_mean(kept: &[i128]) -> i128 {
        let n = kept.len() as i128;
        let mean = kept.iter().sum::<i128>() / n;
        let squares = kept.iter().map(|v| v * v).sum::<i128>() % (1 << 64);
        (squares / n - mean * mean).rem_euclid(1 << 64)
    }

    fn longest(kept: &[i128], _: i128) -> i128 {
        kept.iter().copied().max().unwrap_or(0)
    }

    fn take_farthest_from_mean(kept: &[i128], mean: i128) -> i128 {
        let least = kept.iter().copied().min().unwrap_or(0);
        let greatest = longest(kept, mean);
        if mean - least > greatest - mean {
            least
        } else {
            greatest
        }
    }

    #[test]
    fn a_steady_interval_is_found_in_spite_of_two_outliers() {
        let high = [100, 101, 99, 5_000, 100, 100, 90_000, 100];
        assert_eq!(old(&high, false), Some(100));
        assert_eq!(new(&high, Scattered::Nothing), Some(100));
        let both_ends = [1_000, 1_000, 3, 1_000, 1_000, 90_000, 1_000, 1_000];
        // Six equal intervals were left out as the longest.
        assert_eq!(old(&both_ends, false), Some(3));
        assert_eq!(new(&both_ends, Scattered::Nothing), Some(1_000));
    }

    #[test]
    fn scattered_intervals_have_no_pattern_or_promise_their_longest() {
        let scattered = [10, 900, 40, 5_000, 200, 70_000, 90_000, 1_000];
        assert_eq!(old(&scattered, true), None);
        let recent = after(&scattered, OLD_LONGEST);
        assert_eq!(
            recent.find_typical_without_longest(Scattered::Longest, false),
            Some(5_000)
        );
        assert_eq!(new(&scattered, Scattered::Nothing), None);
        assert_eq!(new(&scattered, Scattered::Longest), Some(5_000));
    }

    #[test]
    fn generations_differ_where_all_intervals_are_zero() {
        assert_eq!(old(&[], true), Some(0));
        assert_eq!(old(&[], false), None);
        assert_eq!(new(&[], Scattered::Longest), None);
        let nearly = [0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(old(&nearly, false), Some(0));
        assert_eq!(new(&nearly, Scattered::Nothing), Some(0));
    }

    #[test]
    fn unknown_intervals_do_not_count() {
        assert_eq!(old(&[u32::MAX; 8], true), None);
        assert_eq!(new(&[u32::MAX; 8], Scattered::Longest), None);
        // An interval of 2^31 us counts from Linux 6.15 on.
        let mut long = [u32::MAX; 8];
        long[3] = 1 << 31;
        assert_eq!(old(&long, true), None);
        assert_eq!(new(&long, Scattered::Nothing), Some(1 << 31));
    }

    proptest! {
        #[test]
        fn running_totals_give_what_the_definition_gives(
            intervals in prop::collection::vec(
                prop_oneof![
                    0_u32..2_000,
                    90_u32..110,
                    any::<u32>(),
                    Just(u32::MAX),
                    0x7fff_fff0_u32..0x8000_0010,
                ],
                8..40,
            ),
            scattered in prop_oneof![Just(Scattered::Nothing), Just(Scattered::Longest)],
        ) {
            let last = &intervals[intervals.len() - 8..];
            for zeros in [true, false] {
                prop_assert_eq!(
                    after(&intervals, OLD_LONGEST).find_typical_without_longest(scattered, zeros),
                    by_definition(
                        known_intervals(last, OLD_LONGEST),
                        scattered,
                        zeros,
                        deviations_from_the_mean,
                        longest,
                    )
                );
            }
            prop_assert_eq!(
                after(&intervals, u32::MAX - 1).find_typical_without_farthest(scattered),
                by_definition(
                    known_intervals(last, u32::MAX - 1),
                    scattered,
                    false,
                    mean_square_less_squared_mean,
                    take_farthest_from_mean,
                )
            );
        }
    }
}
