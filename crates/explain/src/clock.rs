//! The clock at which CPUs ran, from their cycles.

use wakepath_trace::recording::ClockCycles;

/// Shortest time over which cycles give a clock, in ns. Assumed: reading both counters takes some 100 ns.
const SHORTEST_NS: u64 = 500;
/// Clocks are told apart by so many kHz: the steps of Intel's and AMD's processors, or a multiple of these.
const STEP_KHZ: u64 = 100_000;
/// Least rate of reference cycles, in per cent of the highest rate seen. Below, the CPU was halted or taken away meanwhile.
const LEAST_RUNNING_PERCENT: u64 = 80;

/// Turns cycles of CPUs over some time into clock frequencies.
#[derive(Default)]
pub(crate) struct ClockMeter {
    /// Highest rate of reference cycles of any CPU so far, in kHz.
    reference_khz: u64,
}

impl ClockMeter {
    /// The clock in kHz, rounded to 100 MHz. `None` where the time is too short, or the CPU did not run for all of it.
    pub(crate) fn measure_khz(&mut self, clock: &ClockCycles) -> Option<u32> {
        if clock.elapsed.0 < SHORTEST_NS {
            return None;
        }
        let reference_khz = rate_khz(clock.reference, clock.elapsed.0);
        self.reference_khz = self.reference_khz.max(reference_khz);
        let least = u128::from(self.reference_khz) * u128::from(LEAST_RUNNING_PERCENT);
        if u128::from(reference_khz) * 100 < least {
            return None;
        }
        let khz = rate_khz(clock.cycles, clock.elapsed.0);
        let rounded = khz.saturating_add(STEP_KHZ / 2) / STEP_KHZ * STEP_KHZ;
        u32::try_from(rounded).ok().filter(|khz| *khz > 0)
    }
}

fn rate_khz(cycles: u64, elapsed_ns: u64) -> u64 {
    let khz = u128::from(cycles) * 1_000_000 / u128::from(elapsed_ns);
    u64::try_from(khz).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use wakepath_units::Nanoseconds;

    use super::*;

    fn reading(elapsed: u64, cycles: u64, reference: u64) -> ClockCycles {
        ClockCycles {
            elapsed: Nanoseconds(elapsed),
            cycles,
            reference,
        }
    }

    #[test]
    fn cycles_over_time_are_the_clock() {
        let mut meter = ClockMeter::default();
        assert_eq!(
            meter.measure_khz(&reading(2_000, 6_400, 4_800)),
            Some(3_200_000)
        );
        assert_eq!(
            meter.measure_khz(&reading(2_000, 1_640, 4_790)),
            Some(800_000)
        );
        // The host ran something else for half of the time.
        assert_eq!(meter.measure_khz(&reading(4_000, 6_400, 4_800)), None);
        // Too short, and nothing counted.
        assert_eq!(meter.measure_khz(&reading(100, 320, 240)), None);
        assert_eq!(meter.measure_khz(&reading(2_000, 0, 4_800)), None);
    }

    #[test]
    fn impossible_counts_are_no_clock() {
        let mut meter = ClockMeter::default();
        assert_eq!(meter.measure_khz(&reading(500, u64::MAX, u64::MAX)), None);
        assert_eq!(meter.measure_khz(&reading(u64::MAX, 1, 1)), None);
        assert_eq!(meter.measure_khz(&reading(0, 1, 1)), None);
    }
}
