//! CPU frequency policies: which operating point to run at, and how far waiting for I/O raises it.
//!
//! Each governor receives events from its CPUs and answers with a new frequency, or none. `performance` and
//! `powersave` need no code: see [`FrequencyTable::highest`] and [`FrequencyTable::lowest`].

pub mod amd_pstate;
pub mod epp;
pub mod hwp_boost;
pub mod intel_pstate;
pub mod iowait_boost;
pub mod limits;
pub mod ondemand;
pub mod schedutil;

use serde::Serialize;
use wakepath_units::{Kilohertz, Nanoseconds};

/// The frequencies that a CPU can run at, never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyTable {
    /// Ascending, without duplicates, never empty.
    frequencies: Vec<Kilohertz>,
}

impl FrequencyTable {
    /// Builds a table from frequencies in any order. `None` if there are none.
    pub fn new(mut frequencies: Vec<Kilohertz>) -> Option<Self> {
        frequencies.sort_unstable();
        frequencies.dedup();
        (!frequencies.is_empty()).then_some(Self { frequencies })
    }

    /// Frequencies of the table, lowest first.
    pub fn as_slice(&self) -> &[Kilohertz] {
        &self.frequencies
    }

    /// The lowest frequency.
    pub fn lowest(&self) -> Kilohertz {
        self.frequencies[0]
    }

    /// The highest frequency.
    pub fn highest(&self) -> Kilohertz {
        self.frequencies[self.frequencies.len() - 1]
    }

    /// Lowest frequency of the table at or above `wanted`, or the highest there is
    /// (`CPUFREQ_RELATION_L`).
    pub fn lowest_at_or_above(&self, wanted: Kilohertz) -> Kilohertz {
        let index = self.frequencies.partition_point(|&f| f < wanted);
        *self.frequencies.get(index).unwrap_or(&self.highest())
    }

    /// Highest frequency of the table at or below `limit`, or the lowest there is.
    pub fn highest_at_or_below(&self, limit: Kilohertz) -> Kilohertz {
        let index = self.frequencies.partition_point(|&f| f <= limit);
        self.frequencies[index.saturating_sub(1)]
    }

    /// Frequency of the table closest to `wanted`, the lower in case of a tie
    /// (`CPUFREQ_RELATION_C`).
    pub fn closest_frequency(&self, wanted: Kilohertz) -> Kilohertz {
        let above = self.lowest_at_or_above(wanted);
        let index = self.frequencies.partition_point(|&f| f < wanted);
        let below = self.frequencies[index.saturating_sub(1)];
        if wanted.0.abs_diff(below.0) <= wanted.0.abs_diff(above.0) {
            below
        } else {
            above
        }
    }
}

/// Time to leave between two frequency changes where no rate limit is given. It is one and a half
/// times the driver's transition latency in whole microseconds, or 1 ms if that is below 1 us
/// (`cpufreq_policy_transition_delay_us()`, `drivers/cpufreq/cpufreq.c`, Linux 6.12).
pub fn rate_limit_from_transition_latency(transition_latency: Nanoseconds) -> Nanoseconds {
    match transition_latency.as_micros() {
        0 => Nanoseconds::from_millis(1),
        us => Nanoseconds::from_micros(us.saturating_add(us / 2)),
    }
}

/// Settings for schedutil.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct SchedutilSettings {
    /// How wake-ups from I/O wait raise the utilisation.
    pub boost: iowait_boost::Settings,
    /// Shortest time between two frequency changes by schedutil. `None` leaves it to the machine,
    /// as the kernel derives it from the driver's transition latency.
    pub rate_limit: Option<Nanoseconds>,
}

/// A CPU frequency policy with settings. Parsed from names such as `schedutil[iowait_boost=off]`
/// ([`crate::spec`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum FreqPolicy {
    /// `schedutil`: frequency from the scheduler's utilisation signals.
    Schedutil(SchedutilSettings),
    /// `performance`: always the highest frequency.
    Performance,
    /// `powersave`: always the lowest frequency.
    Powersave,
    /// `ondemand`: frequency from the share of busy time, sampled.
    Ondemand,
    /// intel_pstate in active mode without hardware-managed P-states, powersave algorithm.
    IntelPstate {
        /// Whether wake-ups from I/O wait raise the busy fraction.
        iowait_boost: bool,
    },
    /// intel_pstate in active mode with hardware-managed P-states (HWP).
    IntelPstateHwp {
        /// Whether wake-ups from I/O wait raise the minimum performance (`hwp_dynamic_boost`).
        dynamic_boost: bool,
        /// Energy-performance preference: 0 is performance, 255 is power saving.
        epp: u8,
    },
    /// amd-pstate, in any mode.
    AmdPstate(amd_pstate::AmdPstateSettings),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_needs_a_frequency() {
        assert_eq!(FrequencyTable::new(vec![]), None);
    }

    #[test]
    fn transition_delays() {
        assert_eq!(
            rate_limit_from_transition_latency(Nanoseconds(40_000)),
            Nanoseconds(60_000)
        );
        assert_eq!(
            rate_limit_from_transition_latency(Nanoseconds(999)),
            Nanoseconds(1_000_000)
        );
    }

    proptest! {
        #[test]
        fn lookups_find_the_best_entry(
            list in prop::collection::vec(0_u32..5_000, 1..20),
            wanted in 0_u32..6_000,
        ) {
            let table = FrequencyTable::new(list.iter().copied().map(Kilohertz).collect()).unwrap();
            let above = table.lowest_at_or_above(Kilohertz(wanted)).0;
            let expected = list.iter().copied().filter(|&f| f >= wanted).min();
            prop_assert_eq!(above, expected.unwrap_or(table.highest().0));
            let below = list.iter().copied().filter(|&f| f <= wanted).max();
            prop_assert_eq!(table.highest_at_or_below(Kilohertz(wanted)).0, below.unwrap_or(table.lowest().0));
            let closest = table.closest_frequency(Kilohertz(wanted)).0;
            let distance = list.iter().map(|f| f.abs_diff(wanted)).min().unwrap();
            prop_assert_eq!(closest.abs_diff(wanted), distance);
            let mirrored = wanted.checked_sub(distance).filter(|f| list.contains(f));
            prop_assert_eq!(closest, mirrored.unwrap_or(closest));
        }
    }
}
