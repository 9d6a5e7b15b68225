//! The clock for interconnect and last-level cache, and its energy.
//!
//! The hardware chooses the clock at each slot's end: the clock of the fastest CPU powered in the slot, within limits.
//! A slot is long (Skylake-SP: about 10 ms), so nothing has to happen in between: the engine tells the fastest clock
//! at wake-ups and changes, and the next change works out slots that are over. The uncore is off while the package is
//! down.

use wakepath_hardware::machine::Uncore;
use wakepath_units::{Kilohertz, Nanoseconds};

use crate::core::basics::NEVER;

/// All clusters' uncores, with one clock.
#[derive(Debug)]
pub(crate) struct UncoreClock {
    uncore: Option<Uncore>,
    slot: u64,
    /// When the present slot ends; never without an uncore.
    slot_end: u64,
    /// The fastest clock of a powered CPU in the present slot, in kHz.
    fastest: u32,
    clock: Kilohertz,
    /// When the uncore goes off; never while the package is not on the way down.
    off_at: u64,
    /// Up to when the totals are known.
    since: u64,
    totals: UncoreTotals,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UncoreTotals {
    time_on: u64,
    khz_time: u128,
    /// One cluster's energy, in femtojoules.
    energy: u128,
}

impl UncoreClock {
    /// The clock on a machine with this uncore, if any.
    pub(crate) fn new(uncore: Option<&Uncore>) -> Self {
        let uncore = uncore.cloned();
        let slot = uncore
            .as_ref()
            .map_or(NEVER, |u| u.slot_us.micros_to_time().0);
        Self {
            slot,
            slot_end: slot,
            fastest: 0,
            clock: uncore
                .as_ref()
                .map_or(Kilohertz(0), |u| u.clock_within_limits(Kilohertz(0))),
            uncore,
            off_at: NEVER,
            since: 0,
            totals: UncoreTotals::default(),
        }
    }

    /// Whether a slot is over that [`Self::end_slots`] does not know about.
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.slot_end <= now
    }

    /// The slots up to `now` are over; since the last change the fastest powered CPU has run at
    /// `fastest` kHz, 0 if there was none.
    pub(crate) fn end_slots(&mut self, now: u64, fastest: u32) {
        while self.is_due(now) {
            self.settle(self.slot_end);
            let seen = std::mem::replace(&mut self.fastest, fastest);
            self.clock = self.clock_at(seen);
            // After a slot without a change every further one is the same.
            let last = now / self.slot * self.slot;
            self.slot_end = if seen == fastest && self.slot_end < last {
                last
            } else {
                self.slot_end + self.slot
            };
        }
    }

    fn clock_at(&self, khz: u32) -> Kilohertz {
        let clock = self
            .uncore
            .as_ref()
            .map(|u| u.clock_within_limits(Kilohertz(khz)));
        clock.unwrap_or(Kilohertz(0))
    }

    /// A powered CPU runs at so many kHz from now on.
    #[inline]
    pub(crate) fn sees(&mut self, khz: u32) {
        self.fastest = self.fastest.max(khz);
    }

    /// The package will be down from `at` on, unless a CPU wakes up before.
    #[inline]
    pub(crate) fn goes_off(&mut self, at: u64) {
        self.off_at = at;
    }

    /// A CPU wakes up at `now`, so that the package is not down from now on.
    #[inline]
    pub(crate) fn goes_on(&mut self, now: u64) {
        if self.uncore.is_some() && self.off_at != NEVER {
            self.settle(now);
            self.off_at = NEVER;
        }
    }

    pub(crate) fn settle(&mut self, until: u64) {
        let since = std::mem::replace(&mut self.since, until);
        let time = until.min(self.off_at).saturating_sub(since);
        if let Some(uncore) = &self.uncore {
            self.totals.time_on += time;
            self.totals.khz_time += u128::from(self.clock.0) * u128::from(time);
            self.totals.energy += uncore
                .power_at_clock(self.clock)
                .femtojoules_over(Nanoseconds(time));
        }
    }

    /// Counts up to the last settled time.
    pub(crate) fn totals(&self) -> UncoreTotals {
        self.totals
    }

    /// Takes off what had been counted before.
    pub(crate) fn leave_out(&mut self, before: &UncoreTotals) {
        self.totals.time_on -= before.time_on;
        self.totals.khz_time -= before.khz_time;
        self.totals.energy -= before.energy;
    }

    /// One cluster's uncore energy, in femtojoules; `None` if the machine has no uncore.
    pub(crate) fn energy(&self) -> Option<u128> {
        self.uncore.as_ref().map(|_| self.totals.energy)
    }

    /// Mean clock in MHz while on; 0 if never on.
    pub(crate) fn mean_mhz(&self) -> f64 {
        self.totals.khz_time as f64 / self.totals.time_on.max(1) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use wakepath_hardware::Machine;

    use super::*;

    const MS: u64 = 1_000_000;

    /// 1200 to 2400 MHz, slots of 10 ms.
    fn uncore() -> UncoreClock {
        UncoreClock::new(Machine::find("skylake-2s-server").unwrap().uncore.as_ref())
    }

    fn tell(uncore: &mut UncoreClock, now: u64, fastest: u32) {
        if uncore.is_due(now) {
            uncore.end_slots(now, fastest);
        }
    }

    #[test]
    fn the_clock_follows_a_slot_later_and_falls_when_nobody_runs() {
        let mut u = uncore();
        u.sees(3_000_000);
        // Slept from 2 ms on; two slots later somebody comes back.
        tell(&mut u, 2 * MS, 3_000_000);
        assert_eq!(u.clock, Kilohertz(1_200_000));
        tell(&mut u, 35 * MS, 0);
        assert_eq!(u.clock, Kilohertz(1_200_000));
        u.settle(35 * MS);
        // Only the second slot is at its limit, 2.4 GHz.
        assert!((u.mean_mhz() - (25.0 * 1200.0 + 10.0 * 2400.0) / 35.0).abs() < 1e-9);
    }

    #[test]
    fn splitting_a_stretch_changes_nothing() {
        let run = |steps: &[u64]| {
            let mut u = uncore();
            u.sees(2_000_000);
            for step in steps {
                tell(&mut u, *step, 2_000_000);
                u.sees(2_000_000);
            }
            tell(&mut u, 1000 * MS, 2_000_000);
            u.settle(1000 * MS);
            (u.totals.energy, u.totals.khz_time, u.totals.time_on)
        };
        let many: Vec<u64> = (1..999).map(|ms| ms * MS + 7).collect();
        assert_eq!(run(&[]), run(&many));
        assert_eq!(run(&[]).2, 1000 * MS);
    }

    #[test]
    fn a_package_that_is_down_draws_nothing() {
        let mut u = uncore();
        u.goes_off(5 * MS);
        u.goes_on(8 * MS);
        // Too late for the package to go down.
        u.goes_off(9 * MS);
        u.goes_on(8 * MS + 1);
        u.settle(9 * MS);
        assert_eq!(u.totals.time_on, 6 * MS);
    }
}
