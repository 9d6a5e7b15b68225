//! The range that a frequency policy may use.
//!
//! Source: `cpufreq_verify_within_limits()`, `include/linux/cpufreq.h`, and `cpufreq_frequency_table_verify()`,
//! `drivers/cpufreq/freq_table.c`, Linux 6.12.

use serde::Serialize;
use wakepath_units::Kilohertz;

use super::FrequencyTable;

/// Limits to a CPU's frequency. At least one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct FrequencyLimits {
    /// Lowest frequency that the CPU may use.
    pub min: Option<Kilohertz>,
    /// Highest frequency that the CPU may use.
    pub max: Option<Kilohertz>,
}

impl FrequencyLimits {
    /// Lower and upper limit on a CPU that can run from `lowest` to `highest`: limits beyond that range become its ends.
    pub fn clamp_to_range(&self, lowest: Kilohertz, highest: Kilohertz) -> [Kilohertz; 2] {
        let min = self.min.unwrap_or(lowest).clamp(lowest, highest);
        let max = self.max.unwrap_or(highest).clamp(lowest, highest);
        [min, max]
    }

    /// The frequencies of a CPU's table that the limits allow. If there is none between them, the next one above is
    /// allowed.
    pub fn allowed_frequencies(&self, table: &FrequencyTable) -> FrequencyTable {
        let [min, max] = self.clamp_to_range(table.lowest(), table.highest());
        let within = table.as_slice().iter().copied();
        let within = within.filter(|frequency| (min..=max).contains(frequency));
        FrequencyTable::new(within.collect()).unwrap_or_else(|| FrequencyTable {
            frequencies: vec![table.lowest_at_or_above_else_highest(max)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(min: Option<u32>, max: Option<u32>) -> Vec<u32> {
        let table = FrequencyTable::new([408, 600, 816, 1008, 1416].map(Kilohertz).into()).unwrap();
        let limits = FrequencyLimits {
            min: min.map(Kilohertz),
            max: max.map(Kilohertz),
        };
        let allowed = limits.allowed_frequencies(&table);
        allowed
            .as_slice()
            .iter()
            .map(|frequency| frequency.0)
            .collect()
    }

    #[test]
    fn frequencies_between_the_limits_are_allowed() {
        assert_eq!(allowed(Some(600), Some(1008)), [600, 816, 1008]);
        assert_eq!(allowed(Some(601), None), [816, 1008, 1416]);
        assert_eq!(allowed(None, Some(815)), [408, 600]);
    }

    #[test]
    fn limits_beyond_the_table_become_its_ends() {
        assert_eq!(allowed(Some(2000), None), [1416]);
        assert_eq!(allowed(None, Some(100)), [408]);
        assert_eq!(allowed(Some(100), Some(2000)).len(), 5);
    }

    #[test]
    fn between_two_frequencies_the_upper_one_is_allowed() {
        assert_eq!(allowed(Some(820), Some(1000)), [1008]);
    }
}
