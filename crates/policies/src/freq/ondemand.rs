//! ondemand: the frequency from the share of time that a CPU was busy, sampled at intervals.
//!
//! Source: `od_update()`, `drivers/cpufreq/cpufreq_ondemand.c`, and `dbs_update()`,
//! `drivers/cpufreq/cpufreq_governor.c`, Linux 6.12, with default tunables.

use wakepath_units::{Kilohertz, Nanoseconds, TickRate};

use super::{FrequencyTable, rate_limit_from_transition_latency};

/// Load of a CPU in percent above which ondemand takes the highest frequency, with idle times
/// measured to the microsecond (`MICRO_FREQUENCY_UP_THRESHOLD`).
const UP_THRESHOLD: u32 = 95;

/// Busy and idle time of a CPU since ondemand's last sample, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time since ondemand's last sample.
    pub elapsed_us: u32,
    /// Idle part of the time since the last sample. Time waiting for I/O is idle time too.
    pub idle_us: u32,
}

/// The ondemand governor of a frequency domain.
#[derive(Clone, Debug)]
pub struct Ondemand {
    table: FrequencyTable,
    /// The frequencies that may be chosen.
    allowed: FrequencyTable,
    interval: Nanoseconds,
    /// Load of each CPU at the last sample, in percent; 0 once it has been used twice.
    previous: Vec<u32>,
}

impl Ondemand {
    /// The governor of a domain with `cpus` CPUs whose driver needs `transition_latency` per
    /// frequency change.
    pub fn new(
        table: FrequencyTable,
        cpus: usize,
        transition_latency: Nanoseconds,
        tick: TickRate,
    ) -> Self {
        let two_ticks = Nanoseconds::from_micros(2 * tick.period().0 / 1_000);
        Self {
            allowed: table.clone(),
            table,
            interval: rate_limit_from_transition_latency(transition_latency).max(two_ticks),
            previous: vec![0; cpus],
        }
    }

    /// The governor limited to some of the table's frequencies. A load still stands for a frequency of the whole table.
    #[must_use]
    pub fn limited_to_frequencies(self, allowed: FrequencyTable) -> Self {
        Self { allowed, ..self }
    }

    /// Time between ondemand's samples: at least two ticks.
    pub fn sampling_interval(&self) -> Nanoseconds {
        self.interval
    }

    /// Chooses the frequency after a sample from all CPUs in the domain; the highest load counts.
    pub fn choose_frequency(&mut self, samples: &[Sample]) -> Kilohertz {
        let interval_us = u32::try_from(self.interval.as_micros()).unwrap_or(u32::MAX);
        let load = self
            .previous
            .iter_mut()
            .zip(samples)
            .map(|(previous, &sample)| load_percent_reusing_old_once(previous, sample, interval_us))
            .max()
            .unwrap_or(0);
        if load > UP_THRESHOLD {
            return self.allowed.highest();
        }
        let (lowest, highest) = (self.table.lowest().0, self.table.highest().0);
        let range = u64::from(highest - lowest);
        let above = u64::from(load) * range / 100;
        self.allowed
            .closest_frequency(Kilohertz(lowest + above as u32))
    }
}

/// Load of a CPU in percent since the last sample.
///
/// After a long idle time the load before it counts once more, so that a task that has just woken
/// up does not start at the lowest frequency.
fn load_percent_reusing_old_once(previous: &mut u32, sample: Sample, interval_us: u32) -> u32 {
    if sample.elapsed_us == 0 {
        return *previous;
    }
    if sample.idle_us > interval_us.saturating_mul(2) && *previous != 0 {
        return std::mem::take(previous);
    }
    let busy = u64::from(sample.elapsed_us.saturating_sub(sample.idle_us));
    *previous = (100 * busy / u64::from(sample.elapsed_us)) as u32;
    *previous
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn domain() -> Ondemand {
        let table = (4..=20).map(|step| Kilohertz(step * 100_000)).collect();
        Ondemand::new(
            FrequencyTable::new(table).unwrap(),
            1,
            Nanoseconds(10_000),
            TickRate::HZ_250,
        )
    }

    fn busy(percent: u32) -> [Sample; 1] {
        [Sample {
            elapsed_us: 8_000,
            idle_us: 8_000 - 80 * percent,
        }]
    }

    #[test]
    fn load_maps_linearly_up_to_the_threshold() {
        let mut domain = domain();
        assert_eq!(domain.sampling_interval(), Nanoseconds::from_millis(8));
        assert_eq!(domain.choose_frequency(&busy(0)), Kilohertz(400_000));
        assert_eq!(domain.choose_frequency(&busy(50)), Kilohertz(1_200_000));
        assert_eq!(domain.choose_frequency(&busy(95)), Kilohertz(1_900_000));
        assert_eq!(domain.choose_frequency(&busy(96)), Kilohertz(2_000_000));
    }

    #[test]
    fn the_load_before_a_long_idle_counts_once_more() {
        let mut domain = domain();
        domain.choose_frequency(&busy(100));
        let long_idle = [Sample {
            elapsed_us: 20_000,
            idle_us: 20_000,
        }];
        assert_eq!(domain.choose_frequency(&long_idle), Kilohertz(2_000_000));
        assert_eq!(domain.choose_frequency(&long_idle), Kilohertz(400_000));
    }

    proptest! {
        #[test]
        fn it_stays_in_the_table(
            samples in prop::collection::vec((any::<u32>(), any::<u32>()), 1..20),
        ) {
            let mut domain = domain();
            for (elapsed_us, idle_us) in samples {
                let chosen = domain.choose_frequency(&[Sample { elapsed_us, idle_us }]);
                prop_assert!(domain.table.as_slice().contains(&chosen));
            }
        }
    }
}
