//! schedutil's boost for CPUs with tasks in iowait.
//!
//! Source: `sugov_iowait_boost()`, `sugov_iowait_apply()` and `sugov_iowait_reset()`,
//! `kernel/sched/cpufreq_schedutil.c`, Linux 6.1 and 6.12, which agree.

use serde::Serialize;
use wakepath_units::{Capacity, Nanoseconds, TickRate};

/// First iowait boost, and the least one before a decaying boost ends: an eighth of the scale
/// (`IOWAIT_BOOST_MIN`).
const START: u32 = Capacity::SCALE.0 / 8;

/// How schedutil's boost grows with each further wake-up from I/O wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The boost doubles, as in the kernel.
    #[default]
    Double,
    /// The boost grows by an eighth of the scale.
    Linear,
}

/// Variant of schedutil's iowait boost. The default is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Settings {
    /// Whether wake-ups from I/O wait boost the frequency at all.
    pub enabled: bool,
    /// Growth of the boost with each wake-up from I/O wait.
    pub step: Step,
    /// Highest boost, at most [`Capacity::SCALE`], the kernel's.
    pub cap: Capacity,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            step: Step::default(),
            cap: Capacity::SCALE,
        }
    }
}

/// schedutil's iowait boost on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct IowaitBoost {
    settings: Settings,
    tick: u64,
    boost: u32,
    /// Whether a wake-up from I/O wait was reported since the last update; further ones until then
    /// do not count.
    requested: bool,
    last_update: u64,
}

impl IowaitBoost {
    /// Boost of a CPU that has none yet.
    pub fn new(settings: Settings, tick: TickRate) -> Self {
        Self {
            settings,
            tick: tick.period().0,
            boost: 0,
            requested: false,
            last_update: 0,
        }
    }

    /// Handles the scheduler's report of a change at `now`, and raises the boost if `iowait`: a
    /// task wakes up from waiting for I/O. Call it on every report, also where the rate limit then
    /// forbids an update.
    pub fn note_report(&mut self, now: Nanoseconds, iowait: bool) {
        if !self.settings.enabled {
            return;
        }
        if self.boost != 0 && self.is_stale(now) {
            self.boost = if iowait { self.starting_boost() } else { 0 };
            self.requested = iowait;
        } else if iowait && !self.requested {
            self.requested = true;
            self.boost = if self.boost == 0 {
                self.starting_boost()
            } else {
                self.next_higher_boost()
            };
        }
        self.last_update = now.0;
    }

    /// Boost for a frequency update at `now`, scaled to a CPU with `max_capacity`. The larger of
    /// boost and real utilisation counts.
    ///
    /// Without a wake-up from I/O wait since the last update, the boost is halved first.
    pub fn decay_and_scale_boost(&mut self, now: Nanoseconds, max_capacity: Capacity) -> Capacity {
        if self.boost == 0 {
            return Capacity(0);
        }
        if self.is_stale(now) {
            self.boost = 0;
            self.requested = false;
            return Capacity(0);
        }
        if !self.requested {
            self.boost /= 2;
            if self.boost < self.starting_boost() {
                self.boost = 0;
                return Capacity(0);
            }
        }
        self.requested = false;
        let scaled = u64::from(self.boost) * u64::from(max_capacity.0);
        Capacity((scaled / u64::from(Capacity::SCALE.0)) as u32)
    }

    /// Whether more than a tick has passed since the last report. Signed, as in the kernel: a clock
    /// that went back is no reason to give up the boost.
    fn is_stale(&self, now: Nanoseconds) -> bool {
        now.0.wrapping_sub(self.last_update) as i64 > self.tick as i64
    }

    fn starting_boost(&self) -> u32 {
        START.min(self.settings.cap.0)
    }

    fn next_higher_boost(&self) -> u32 {
        let raised = match self.settings.step {
            Step::Double => self.boost * 2,
            Step::Linear => self.boost + START,
        };
        raised.min(self.settings.cap.0).min(Capacity::SCALE.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FULL: Capacity = Capacity::SCALE;

    /// The boosts after updates 1 ms apart, each with or without a wake-up from I/O wait.
    fn boosts(settings: Settings, wakeups: &[bool]) -> Vec<u32> {
        let mut boost = IowaitBoost::new(settings, TickRate::HZ_250);
        (1..)
            .zip(wakeups)
            .map(|(ms, &iowait)| {
                let now = Nanoseconds::from_millis(ms);
                boost.note_report(now, iowait);
                boost.decay_and_scale_boost(now, FULL).0
            })
            .collect()
    }

    #[test]
    fn it_doubles_from_an_eighth_and_halves_back() {
        let wakeups = [
            true, true, true, true, true, false, false, false, false, true,
        ];
        assert_eq!(
            boosts(Settings::default(), &wakeups),
            [128, 256, 512, 1024, 1024, 512, 256, 128, 0, 128]
        );
    }

    #[test]
    fn the_variants_grow_slower_or_less_far() {
        let linear = Settings {
            step: Step::Linear,
            ..Settings::default()
        };
        assert_eq!(boosts(linear, &[true; 4]), [128, 256, 384, 512]);
        let capped = Settings {
            cap: Capacity(300),
            ..Settings::default()
        };
        assert_eq!(boosts(capped, &[true; 4]), [128, 256, 300, 300]);
        let off = Settings {
            enabled: false,
            ..Settings::default()
        };
        assert_eq!(boosts(off, &[true; 3]), [0, 0, 0]);
    }

    #[test]
    fn only_one_request_per_update_counts() {
        let mut boost = IowaitBoost::new(Settings::default(), TickRate::HZ_250);
        for us in 1..=5 {
            boost.note_report(Nanoseconds::from_micros(us), true);
        }
        assert_eq!(
            boost
                .decay_and_scale_boost(Nanoseconds::from_micros(6), FULL)
                .0,
            128
        );
    }

    #[test]
    fn more_than_a_tick_without_reports_ends_it() {
        let mut boost = IowaitBoost::new(Settings::default(), TickRate::HZ_250);
        for _ in 0..3 {
            boost.note_report(Nanoseconds(0), true);
            boost.decay_and_scale_boost(Nanoseconds(0), FULL);
        }
        let mut kept = boost;
        kept.note_report(Nanoseconds(4_000_000), true);
        assert_eq!(
            kept.decay_and_scale_boost(Nanoseconds(4_000_000), FULL).0,
            1024
        );
        boost.note_report(Nanoseconds(4_000_001), true);
        assert_eq!(
            boost.decay_and_scale_boost(Nanoseconds(4_000_001), FULL).0,
            128
        );
    }

    #[test]
    fn it_is_scaled_to_the_cpu() {
        let mut boost = IowaitBoost::new(Settings::default(), TickRate::HZ_250);
        boost.note_report(Nanoseconds(0), true);
        assert_eq!(
            boost.decay_and_scale_boost(Nanoseconds(0), Capacity(446)).0,
            55
        );
    }

    proptest! {
        #[test]
        fn it_is_zero_or_between_start_and_cap(
            events in prop::collection::vec((any::<u64>(), any::<bool>()), 1..60),
            linear in any::<bool>(),
            cap in 128_u32..=1024,
        ) {
            let step = if linear { Step::Linear } else { Step::Double };
            let settings = Settings { enabled: true, step, cap: Capacity(cap) };
            let mut boost = IowaitBoost::new(settings, TickRate::HZ_1000);
            let mut now = 0_u64;
            for (gap, iowait) in events {
                now = now.wrapping_add(gap % 1_500_000);
                boost.note_report(Nanoseconds(now), iowait);
                let applied = boost.decay_and_scale_boost(Nanoseconds(now), FULL).0;
                prop_assert!(applied == 0 || (128..=cap).contains(&applied));
                prop_assert!(!iowait || applied > 0);
            }
        }
    }
}
