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
    /// Time in ns when the present slot ends; never without an uncore.
    slot_end: u64,
    /// The fastest clock of a powered CPU in the present slot, in kHz.
    fastest: u32,
    clock: Kilohertz,
    /// Time in ns when the uncore goes off; never while the package is not going down.
    off_at: u64,
    /// Time in ns up to which the totals are complete.
    since: u64,
    totals: UncoreTotals,
}

/// Totals of the uncore.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UncoreTotals {
    time_on: u64,
    khz_time: u128,
    /// One cluster's energy, in femtojoules.
    energy: u128,
}

impl UncoreClock {
    /// The uncore clock of a machine; `None` if the machine's description has no uncore.
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

    /// Whether a slot is over by `now` that [`Self::end_due_slots`] has not ended yet.
    #[inline]
    pub(crate) fn has_due_slot(&self, now: u64) -> bool {
        self.slot_end <= now
    }

    /// Ends the slots up to `now`; since the last change the fastest powered CPU has run at
    /// `fastest_khz` kHz, 0 if there was none.
    pub(crate) fn end_due_slots(&mut self, now: u64, fastest_khz: u32) {
        while self.has_due_slot(now) {
            self.settle_energy_until(self.slot_end);
            let seen = std::mem::replace(&mut self.fastest, fastest_khz);
            self.clock = self.clock_for_fastest_cpu(seen);
            // After a slot without a change, all further slots are the same.
            let last = now / self.slot * self.slot;
            self.slot_end = if seen == fastest_khz && self.slot_end < last {
                last
            } else {
                self.slot_end + self.slot
            };
        }
    }

    fn clock_for_fastest_cpu(&self, khz: u32) -> Kilohertz {
        let clock = self
            .uncore
            .as_ref()
            .map(|u| u.clock_within_limits(Kilohertz(khz)));
        clock.unwrap_or(Kilohertz(0))
    }

    /// Notes that a powered CPU runs at `khz` from now on, for the present slot's fastest clock.
    #[inline]
    pub(crate) fn note_powered_cpu_clock(&mut self, khz: u32) {
        self.fastest = self.fastest.max(khz);
    }

    /// Schedules the uncore to go off at `at` with the package, unless a CPU wakes up before.
    #[inline]
    pub(crate) fn schedule_off(&mut self, at: u64) {
        self.off_at = at;
    }

    /// Ends the uncore's off time, or cancels going off: a CPU wakes up at `now`.
    #[inline]
    pub(crate) fn end_or_cancel_off(&mut self, now: u64) {
        if self.uncore.is_some() && self.off_at != NEVER {
            self.settle_energy_until(now);
            self.off_at = NEVER;
        }
    }

    pub(crate) fn settle_energy_until(&mut self, until: u64) {
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

    /// The uncore's totals up to the last settled time.
    pub(crate) fn totals(&self) -> UncoreTotals {
        self.totals
    }

    /// Subtracts the totals noted at the warm-up's end.
    pub(crate) fn subtract_earlier(&mut self, before: &UncoreTotals) {
        self.totals.time_on -= before.time_on;
        self.totals.khz_time -= before.khz_time;
        self.totals.energy -= before.energy;
    }

    /// One cluster's uncore energy, in femtojoules; `None` if the machine has no uncore.
    pub(crate) fn energy_per_cluster(&self) -> Option<u128> {
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
        if uncore.has_due_slot(now) {
            uncore.end_due_slots(now, fastest);
        }
    }

    #[test]
    fn the_clock_follows_a_slot_later_and_falls_when_nobody_runs() {
        let mut u = uncore();
        u.note_powered_cpu_clock(3_000_000);
        // Slept from 2 ms on; two slots later somebody comes back.
        tell(&mut u, 2 * MS, 3_000_000);
        assert_eq!(u.clock, Kilohertz(1_200_000));
        tell(&mut u, 35 * MS, 0);
        assert_eq!(u.clock, Kilohertz(1_200_000));
        u.settle_energy_until(35 * MS);
        // Only the second slot is at its limit, 2.4 GHz.
        assert!((u.mean_mhz() - (25.0 * 1200.0 + 10.0 * 2400.0) / 35.0).abs() < 1e-9);
    }

    #[test]
    fn splitting_a_stretch_changes_nothing() {
        let run = |steps: &[u64]| {
            let mut u = uncore();
            u.note_powered_cpu_clock(2_000_000);
            for step in steps {
                tell(&mut u, *step, 2_000_000);
                u.note_powered_cpu_clock(2_000_000);
            }
            tell(&mut u, 1000 * MS, 2_000_000);
            u.settle_energy_until(1000 * MS);
            (u.totals.energy, u.totals.khz_time, u.totals.time_on)
        };
        let many: Vec<u64> = (1..999).map(|ms| ms * MS + 7).collect();
        assert_eq!(run(&[]), run(&many));
        assert_eq!(run(&[]).2, 1000 * MS);
    }

    #[test]
    fn a_package_that_is_down_draws_nothing() {
        let mut u = uncore();
        u.schedule_off(5 * MS);
        u.end_or_cancel_off(8 * MS);
        // Too late for the package to go down.
        u.schedule_off(9 * MS);
        u.end_or_cancel_off(8 * MS + 1);
        u.settle_energy_until(9 * MS);
        assert_eq!(u.totals.time_on, 6 * MS);
    }
}
