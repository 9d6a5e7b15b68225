//! intel_pstate in active mode without hardware-managed P-states, powersave algorithm: the P-state
//! from the busy fraction of the last 10 ms.
//!
//! Source: `intel_pstate_update_util()` and its callees, `drivers/cpufreq/intel_pstate.c`, Linux 6.1 and 6.12
//! (equal). Fractions are fixed-point numbers as in the kernel.

use wakepath_units::{Nanoseconds, TickRate};

/// Time between samples.
const SAMPLING_INTERVAL_NS: i64 = 10_000_000;
/// The value 1.0 as a fixed-point number with 8 binary places.
const ONE: u32 = 1 << 8;
/// First I/O wait boost of intel_pstate: an eighth.
const BOOST_START: u32 = ONE / 8;
/// Binary places of the average performance.
const AVERAGE_BITS: u32 = 14;

/// P-states of a CPU, as multiples of the bus clock, with limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PstateLimits {
    /// The lowest P-state.
    pub min: u8,
    /// The highest P-state without turbo that is sustained.
    pub max: u8,
    /// P-state at whose frequency the counter MPERF runs.
    pub max_physical: u8,
    /// The highest turbo P-state; `max` where turbo is off.
    pub turbo: u8,
    /// The lowest P-state that the policy allows.
    pub policy_min: u8,
    /// The highest P-state that the policy allows.
    pub policy_max: u8,
}

/// A reading of the CPU's free-running counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// APERF: cycles at the actual frequency, while not idle.
    pub aperf: u64,
    /// MPERF: cycles at the `max_physical` frequency, while not idle.
    pub mperf: u64,
    /// TSC: cycles at the time-stamp counter's frequency, idle or not.
    pub tsc: u64,
}

/// intel_pstate's powersave algorithm on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct IntelPstate {
    limits: PstateLimits,
    tick: u64,
    boost_enabled: bool,
    /// I/O wait boost in 256ths: the least share of busy time that the CPU counts with.
    boost: u32,
    last_update: u64,
    /// Time of the last sample in ns; 0 before the first.
    sampled: u64,
    counters: Counters,
    current: Option<u8>,
}

impl IntelPstate {
    /// The algorithm for a CPU that has not been sampled.
    pub fn new(limits: PstateLimits, iowait_boost: bool, tick: TickRate) -> Self {
        Self {
            limits,
            tick: tick.period().0,
            boost_enabled: iowait_boost,
            boost: 0,
            last_update: 0,
            sampled: 0,
            counters: Counters::default(),
            current: None,
        }
    }

    /// Handles the scheduler's report of a change at `now`; `iowait` if a task wakes up from
    /// waiting for I/O. `read` reads the CPU's counters and is only called when a sample is due.
    ///
    /// Returns the P-state to switch to, if it is not the one chosen before.
    pub fn choose_pstate_if_due(
        &mut self,
        now: Nanoseconds,
        iowait: bool,
        read: impl FnOnce() -> Counters,
    ) -> Option<u8> {
        let now = now.0;
        if self.boost_enabled {
            self.update_boost(now, iowait);
        }
        self.last_update = now;
        if (now.wrapping_sub(self.sampled) as i64) < SAMPLING_INTERVAL_NS {
            return None;
        }

        let counters = read();
        let before = self.counters;
        if counters.mperf == before.mperf || counters.tsc == before.tsc {
            return None;
        }
        // The first sample of the counters has nothing to be compared with.
        let comparable = self.sampled != 0;
        self.sampled = now;
        self.counters = counters;
        if !comparable {
            return None;
        }
        let chosen = self.target_pstate(Counters {
            aperf: counters.aperf.wrapping_sub(before.aperf),
            mperf: counters.mperf.wrapping_sub(before.mperf),
            tsc: counters.tsc.wrapping_sub(before.tsc),
        });
        if self.current == Some(chosen) {
            return None;
        }
        self.current = Some(chosen);
        Some(chosen)
    }

    /// I/O wait boost in 256ths: the share of time that the CPU counts as busy at least.
    pub fn boost_in_256ths(&self) -> u32 {
        self.boost
    }

    /// Doubles the I/O wait boost at a wake-up from I/O wait and halves it at any other update.
    /// After more than a tick it starts anew.
    fn update_boost(&mut self, now: u64, iowait: bool) {
        let rested = now.wrapping_sub(self.last_update) > self.tick;
        self.boost = match (iowait, rested) {
            (true, false) if self.boost >= BOOST_START => (self.boost * 2).min(ONE),
            (true, _) => BOOST_START,
            (false, true) => 0,
            (false, false) => self.boost / 2,
        };
    }

    /// P-state for an advance of the counters: a quarter above the P-state that would keep the CPU
    /// just busy, and at least half-way to the last interval's average.
    fn target_pstate(&self, advance: Counters) -> u8 {
        let limits = self.limits;
        let (mperf, tsc) = (advance.mperf as i64, advance.tsc as i64);
        let counted = (mperf << 8).checked_div(tsc).unwrap_or(0) as i32;
        // The kernel compares the busy share as an unsigned value.
        let busy = (counted as u32).max(self.boost) as i32;

        let ceiling = i64::from(limits.turbo) + i64::from(limits.turbo / 4);
        let needed = ((ceiling * i64::from(busy)) >> 8) as i32;
        let wanted = needed.max(i32::from(limits.min));

        let ratio = (advance.aperf << AVERAGE_BITS)
            .checked_div(advance.mperf)
            .unwrap_or(0) as i32;
        let scaled = u64::from(limits.max_physical).wrapping_mul(i64::from(ratio) as u64);
        let average = (scaled >> AVERAGE_BITS) as i32;
        let smoothed = if average > wanted {
            wanted.wrapping_add(average.wrapping_sub(wanted) >> 1)
        } else {
            wanted
        };

        let lowest = limits.min.max(limits.policy_min);
        let highest = lowest.max(limits.policy_max);
        smoothed.clamp(i32::from(lowest), i32::from(highest)) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: PstateLimits = PstateLimits {
        min: 8,
        max: 24,
        max_physical: 24,
        turbo: 32,
        policy_min: 8,
        policy_max: 32,
    };

    /// Counters after `ms` of which the CPU was busy for `percent`, at P-state `average`.
    fn counters(ms: u64, percent: u64, average: u64) -> Counters {
        let tsc = ms * 2_400_000;
        let mperf = tsc * percent / 100;
        Counters {
            aperf: mperf * average / 24,
            mperf,
            tsc,
        }
    }

    fn after(percent: u64, average: u64, iowait: bool) -> u8 {
        let mut cpu = IntelPstate::new(LIMITS, true, TickRate::HZ_250);
        let at = Nanoseconds::from_millis;
        assert_eq!(
            cpu.choose_pstate_if_due(at(10), false, || counters(10, percent, average)),
            None
        );
        for ms in 11..20 {
            assert_eq!(
                cpu.choose_pstate_if_due(at(ms), iowait, || unreachable!()),
                None
            );
        }
        cpu.choose_pstate_if_due(at(20), iowait, || counters(20, percent, average))
            .unwrap()
    }

    #[test]
    fn the_p_state_follows_the_busy_fraction() {
        // 1.25 x 32 x busy.
        assert_eq!(after(50, 8, false), 20);
        assert_eq!(after(100, 8, false), 32);
        assert_eq!(after(1, 8, false), 8);
    }

    #[test]
    fn it_comes_down_only_half_of_the_way() {
        // 20 is wanted, 30 was the average.
        assert_eq!(after(50, 30, false), 25);
    }

    #[test]
    fn waiting_for_io_counts_as_busy() {
        assert_eq!(after(1, 8, true), 32);
    }

    #[test]
    fn the_boost_doubles_halves_and_starts_anew() {
        let mut cpu = IntelPstate::new(LIMITS, true, TickRate::HZ_250);
        let mut boosts = Vec::new();
        for (ms, iowait) in [
            (5, true),
            (6, true),
            (7, true),
            (8, true),
            (9, true),
            (10, false),
            (11, false),
            (12, true),
            (17, true),
            (18, false),
            (19, true),
            (24, false),
        ] {
            cpu.choose_pstate_if_due(Nanoseconds::from_millis(ms), iowait, Counters::default);
            boosts.push(cpu.boost_in_256ths());
        }
        assert_eq!(boosts, [32, 64, 128, 256, 256, 128, 64, 128, 32, 16, 32, 0]);
    }

    proptest! {
        #[test]
        fn no_counters_leave_the_limits(
            readings in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..20),
            iowait in any::<bool>(),
        ) {
            let mut cpu = IntelPstate::new(LIMITS, true, TickRate::HZ_1000);
            for (i, (aperf, mperf, tsc)) in (1..).zip(readings) {
                let now = Nanoseconds::from_millis(10 * i);
                if let Some(chosen) = cpu.choose_pstate_if_due(now, iowait, || Counters { aperf, mperf, tsc }) {
                    prop_assert!((8..=32).contains(&chosen));
                }
            }
        }
    }
}
