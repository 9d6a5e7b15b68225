//! HWP dynamic boost: a CPU whose tasks wait for I/O asks the hardware for a higher minimum
//! performance.
//!
//! Source: `intel_pstate_update_util_hwp_local()`, `intel_pstate_hwp_boost_up()` and
//! `intel_pstate_hwp_boost_down()`, `drivers/cpufreq/intel_pstate.c`, Linux 6.1 and 6.12, which
//! agree.

use wakepath_units::{Nanoseconds, TickRate};

/// Shortest time in ns for which a raised minimum performance is held.
const HOLD_NS: u64 = 3_000_000;

/// HWP performance levels of a CPU, in the hardware's own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HwpLevels {
    /// Requested minimum.
    pub min: u8,
    /// Performance guaranteed by the hardware.
    pub guaranteed: u8,
    /// Requested maximum.
    pub max: u8,
}

impl HwpLevels {
    /// Next level above `current` that the minimum can be raised to: half-way to the guaranteed
    /// performance, the guaranteed performance, or the maximum.
    fn next_boost_level_above(self, current: u8) -> Option<u8> {
        let half_way = u8::midpoint(self.min, self.guaranteed);
        if current < half_way {
            Some(half_way)
        } else if current < self.guaranteed {
            Some(self.guaranteed)
        } else if current == self.guaranteed && self.max != self.guaranteed {
            Some(self.max)
        } else {
            None
        }
    }
}

/// HWP dynamic boost of one CPU. Only the minimum performance changes; maximum, desired performance
/// and EPP stay.
#[derive(Clone, Copy, Debug)]
pub struct HwpBoost {
    levels: HwpLevels,
    tick: u64,
    /// Minimum performance that the hardware has been given.
    in_force: u8,
    /// Boost level reached last; 0 without boost.
    rung: u8,
    last_iowait: u64,
    /// Time of the last raise, or of the last update without I/O wait, in ns.
    last_update: u64,
}

impl HwpBoost {
    /// Boost of a CPU that has none yet. As the kernel's memory starts zeroed, a wake-up within the
    /// first two ticks of the clock counts as following another one.
    pub fn new(levels: HwpLevels, tick: TickRate) -> Self {
        Self {
            levels,
            tick: tick.period().0,
            in_force: levels.min,
            rung: 0,
            last_iowait: 0,
            last_update: 0,
        }
    }

    /// Minimum performance that the hardware has been given.
    pub fn minimum_in_force(&self) -> u8 {
        self.in_force
    }

    /// Handles the scheduler's report at `now` and returns the minimum performance in force from
    /// now on; `iowait` if a task wakes up from waiting for I/O.
    pub fn update_minimum(&mut self, now: Nanoseconds, iowait: bool) -> u8 {
        let now = now.0;
        if iowait {
            let frequent = is_before_across_wrap(now, self.last_iowait.wrapping_add(2 * self.tick));
            self.last_iowait = now;
            if frequent {
                self.raise_minimum(now);
            }
        } else {
            let held_until = self.last_update.wrapping_add(HOLD_NS);
            if self.rung != 0 && is_before_across_wrap(held_until, now) {
                self.in_force = self.levels.min;
                self.rung = 0;
            }
            self.last_update = now;
        }
        self.in_force
    }

    fn raise_minimum(&mut self, now: u64) {
        let levels = self.levels;
        if levels.max == levels.min || self.rung >= levels.max {
            return;
        }
        if self.rung == 0 {
            self.rung = levels.min;
        }
        if let Some(next) = levels.next_boost_level_above(self.rung) {
            self.rung = next;
            self.in_force = next;
            self.last_update = now;
        }
    }
}

/// Whether one clock value is before another, right across a wrap, as in the kernel
/// (`time_before64()`).
fn is_before_across_wrap(earlier: u64, later: u64) -> bool {
    (earlier.wrapping_sub(later) as i64) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEVELS: HwpLevels = HwpLevels {
        min: 8,
        guaranteed: 24,
        max: 40,
    };

    /// The minima in force after updates at these times in ms, each with or without I/O wait.
    fn minima(levels: HwpLevels, events: &[(u64, bool)]) -> Vec<u8> {
        let mut boost = HwpBoost::new(levels, TickRate::HZ_250);
        events
            .iter()
            .map(|&(ms, iowait)| boost.update_minimum(Nanoseconds::from_millis(ms), iowait))
            .collect()
    }

    #[test]
    fn three_rungs_and_back_after_the_hold_time() {
        let events = [
            (100, true),
            (101, true),
            (102, true),
            (103, true),
            (104, true),
            (106, false),
            (109, false),
            (113, false),
        ];
        // The first wake-up follows none. The updates at 106 and 109 ms come within 3 ms of the
        // last raise or update, the one at 113 ms does not.
        assert_eq!(minima(LEVELS, &events), [8, 16, 24, 40, 40, 40, 40, 8]);
    }

    #[test]
    fn rare_wakeups_do_not_count() {
        let events = [(100, true), (108, true), (116, true)];
        assert_eq!(minima(LEVELS, &events), [8, 8, 8]);
        assert_eq!(minima(LEVELS, &[(100, true), (107, true)]), [8, 16]);
    }

    fn levels(min: u8, guaranteed: u8, max: u8) -> HwpLevels {
        HwpLevels {
            min,
            guaranteed,
            max,
        }
    }

    #[test]
    fn levels_that_coincide_are_skipped() {
        let steps: Vec<_> = (100..105).map(|ms| (ms, true)).collect();
        assert_eq!(minima(levels(24, 24, 40), &steps), [24, 40, 40, 40, 40]);
        assert_eq!(minima(levels(8, 24, 24), &steps), [8, 16, 24, 24, 24]);
        assert_eq!(minima(levels(24, 24, 24), &steps), [24; 5]);
        assert_eq!(minima(levels(30, 24, 40), &steps), [30; 5]);
    }

    proptest! {
        #[test]
        fn with_ordered_levels_the_minimum_stays_between_min_and_max(
            mut three in prop::array::uniform3(any::<u8>()),
            events in prop::collection::vec((0_u64..10_000_000, any::<bool>()), 1..100),
        ) {
            three.sort_unstable();
            let levels = HwpLevels { min: three[0], guaranteed: three[1], max: three[2] };
            let mut boost = HwpBoost::new(levels, TickRate::HZ_1000);
            let mut now = 0;
            let mut previous = levels.min;
            for (gap, iowait) in events {
                now += gap;
                let minimum = boost.update_minimum(Nanoseconds(now), iowait);
                prop_assert!((levels.min..=levels.max).contains(&minimum));
                if iowait {
                    prop_assert!(minimum >= previous);
                } else {
                    prop_assert!(minimum == previous || minimum == levels.min);
                }
                previous = minimum;
            }
        }
    }
}
