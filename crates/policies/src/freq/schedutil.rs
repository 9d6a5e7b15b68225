//! schedutil: the frequency that the scheduler's utilisation signals ask for.
//!
//! Source: `kernel/sched/cpufreq_schedutil.c`, Linux 6.12. Utilisation clamps and deadline tasks are left out.

use wakepath_units::{Capacity, Kilohertz, Nanoseconds, TickRate};

use super::iowait_boost::IowaitBoost;
use super::{FrequencyTable, SchedutilSettings};

/// Signals of a CPU that the scheduler hands to schedutil with an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSignal {
    /// Utilisation of the CPU by all tasks together.
    pub utilisation: Capacity,
    /// Average of how many tasks have been running or waiting for the CPU (`runnable_avg`), which
    /// has counted since Linux 6.5; none before.
    pub runnable: Capacity,
    /// How often the CPU has gone idle, ever (`tick_nohz_get_idle_calls_cpu()`).
    pub idle_calls: u64,
}

impl CpuSignal {
    /// Capacity that the CPU's tasks want, at most `capacity`. Runnable tasks that wait for the CPU
    /// raise the demand, even if each gets little time (`cpu_util_cfs_boost()`).
    fn wanted_capacity(&self, capacity: Capacity) -> Capacity {
        self.utilisation.max(self.runnable).min(capacity)
    }
}

/// The schedutil governor of a frequency domain: CPUs with a shared clock.
#[derive(Clone, Debug)]
pub struct Schedutil {
    /// Lowest frequency at which a CPU has each performance: index 0 is no performance, the last
    /// its capacity.
    frequency_for: Vec<Kilohertz>,
    /// Frequencies to scale by, if the utilisation is not frequency-invariant.
    relative: Option<FrequencyTable>,
    /// Capacity of each CPU at the table's highest frequency.
    capacity: Capacity,
    rate_limit: u64,
    boosts: Vec<IowaitBoost>,
    /// Idle calls at the last update, in a domain with one CPU.
    idle_calls: u64,
    frequency: Option<Kilohertz>,
    last_change: u64,
}

impl Schedutil {
    /// The governor of a domain with `cpus` CPUs of equal capacity, before the first decision.
    ///
    /// `default_rate_limit` is the machine's ([`super::rate_limit_from_transition_latency`]),
    /// unless the settings override.
    pub fn new(
        settings: &SchedutilSettings,
        table: &FrequencyTable,
        capacity: Capacity,
        cpus: usize,
        default_rate_limit: Nanoseconds,
        tick: TickRate,
    ) -> Self {
        let mut domain = Self::for_any_frequency_up_to(
            settings,
            table.highest(),
            capacity,
            default_rate_limit,
            tick,
        );
        for frequency in &mut domain.frequency_for {
            *frequency = table.lowest_at_or_above_else_highest(*frequency);
        }
        domain
            .boosts
            .resize(cpus, IowaitBoost::new(settings.boost, tick));
        domain
    }

    /// Like [`Self::new`], for a single CPU whose driver accepts any frequency up to `highest`.
    pub fn for_any_frequency_up_to(
        settings: &SchedutilSettings,
        highest: Kilohertz,
        capacity: Capacity,
        default_rate_limit: Nanoseconds,
        tick: TickRate,
    ) -> Self {
        Self {
            frequency_for: (0..=capacity.0)
                .map(|performance| frequency_in_proportion(highest, capacity, performance))
                .collect(),
            relative: None,
            capacity,
            rate_limit: settings.rate_limit.unwrap_or(default_rate_limit).0,
            boosts: vec![IowaitBoost::new(settings.boost, tick)],
            idle_calls: 0,
            frequency: None,
            last_change: 0,
        }
    }

    /// The governor where the kernel cannot tell how fast a CPU has been, so that its utilisation
    /// is not frequency-invariant: performance is then relative to the present frequency
    /// (`get_capacity_ref_freq()`). It begins at the lowest one.
    #[must_use]
    pub fn without_frequency_invariance(self, table: FrequencyTable) -> Self {
        Self {
            frequency: Some(table.lowest()),
            relative: Some(table),
            ..self
        }
    }

    /// The governor limited to some of the table's frequencies. What utilisation asks for is reckoned from the whole table,
    /// and then brought within the limits (`cpufreq_driver_resolve_freq()`).
    #[must_use]
    pub fn limited_to_frequencies(mut self, allowed: &FrequencyTable) -> Self {
        for frequency in &mut self.frequency_for {
            *frequency = allowed.lowest_at_or_above_else_highest(*frequency);
        }
        if self.relative.is_some() {
            self.frequency = Some(allowed.lowest());
            self.relative = Some(allowed.clone());
        }
        self
    }

    /// The governor of a CPU whose driver accepts any frequency, limited to a range.
    #[must_use]
    pub fn limited_to_range(mut self, [min, max]: [Kilohertz; 2]) -> Self {
        for frequency in &mut self.frequency_for {
            *frequency = (*frequency).max(min).min(max);
        }
        self
    }

    /// Frequency that schedutil chooses for a performance.
    #[inline]
    fn frequency_for_performance(&self, performance: Capacity) -> Kilohertz {
        match (&self.relative, self.frequency) {
            (Some(table), Some(Kilohertz(now))) => {
                // A quarter more than the present frequency, so that the frequency rises before a
                // CPU is busy all the time.
                let reference = Kilohertz(now.saturating_add(now / 4));
                table.lowest_at_or_above_else_highest(frequency_in_proportion(
                    reference,
                    self.capacity,
                    performance.0,
                ))
            }
            _ => self.frequency_for[performance.0 as usize],
        }
    }

    /// Handles the scheduler's report from CPU `cpu` at `now`; `iowait` if a task wakes up there
    /// after waiting for I/O. `signals` covers all CPUs in the domain.
    ///
    /// Returns the frequency to switch to, if it is not the one chosen before. While the rate limit
    /// lasts nothing changes, but the boost grows.
    pub fn choose_changed_frequency_if_due(
        &mut self,
        now: Nanoseconds,
        cpu: usize,
        iowait: bool,
        signals: impl ExactSizeIterator<Item = CpuSignal>,
    ) -> Option<Kilohertz> {
        if let Some(boost) = self.boosts.get_mut(cpu) {
            boost.handle_scheduler_report(now, iowait);
        }
        let since_change = now.0.wrapping_sub(self.last_change) as i64;
        if since_change < i64::try_from(self.rate_limit).unwrap_or(i64::MAX) {
            return None;
        }

        let alone = signals.len() == 1 && self.boosts.len() == 1;
        let mut idle_calls = 0;
        let mut utilisation = Capacity::default();
        for (boost, signal) in self.boosts.iter_mut().zip(signals) {
            let wanted = signal.wanted_capacity(self.capacity);
            let boosted = boost.decay_and_scale_boost(now, self.capacity).max(wanted);
            utilisation = utilisation.max(boosted);
            idle_calls = signal.idle_calls;
        }
        let performance = add_quarter_headroom(utilisation, self.capacity);
        let mut next = self.frequency_for_performance(performance);

        // A CPU with a clock of its own keeps its frequency if it has not been idle since the last
        // update: it has more to do than its signal shows yet.
        if alone {
            let busy = std::mem::replace(&mut self.idle_calls, idle_calls) == idle_calls;
            if busy {
                next = self.frequency.map_or(next, |current| current.max(next));
            }
        }

        if self.frequency == Some(next) {
            return None;
        }
        self.frequency = Some(next);
        self.last_change = now.0;
        Some(next)
    }
}

/// schedutil on a CPU whose driver accepts performance levels (`sugov_update_single_perf()`).
#[derive(Clone, Debug)]
pub struct SchedutilPerf {
    capacity: Capacity,
    rate_limit: u64,
    boost: IowaitBoost,
    idle_calls: u64,
    performance: Capacity,
    last_change: u64,
}

impl SchedutilPerf {
    /// The governor of a CPU with a given capacity, before its first request.
    pub fn new(
        settings: &SchedutilSettings,
        capacity: Capacity,
        default_rate_limit: Nanoseconds,
        tick: TickRate,
    ) -> Self {
        Self {
            capacity,
            rate_limit: settings.rate_limit.unwrap_or(default_rate_limit).0,
            boost: IowaitBoost::new(settings.boost, tick),
            idle_calls: 0,
            performance: Capacity::default(),
            last_change: 0,
        }
    }

    /// Capacity of the CPU that requested performance is relative to.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Handles the scheduler's report at `now`; `iowait` if a task wakes up from waiting for I/O,
    /// `local` if the CPU reports about itself: no other CPU can change its request.
    ///
    /// Returns the performance to ask for, out of the capacity, or `None` while the rate limit
    /// lasts.
    pub fn choose_performance_if_due(
        &mut self,
        now: Nanoseconds,
        iowait: bool,
        local: bool,
        signal: CpuSignal,
    ) -> Option<Capacity> {
        self.boost.handle_scheduler_report(now, iowait);
        let since_change = now.0.wrapping_sub(self.last_change) as i64;
        if !local || since_change < i64::try_from(self.rate_limit).unwrap_or(i64::MAX) {
            return None;
        }
        let wanted = signal.wanted_capacity(self.capacity);
        let boosted = self
            .boost
            .decay_and_scale_boost(now, self.capacity)
            .max(wanted);
        let mut next = add_quarter_headroom(boosted, self.capacity);
        if std::mem::replace(&mut self.idle_calls, signal.idle_calls) == signal.idle_calls {
            next = next.max(self.performance);
        }
        self.performance = next;
        self.last_change = now.0;
        Some(next)
    }
}

/// Frequency at which a CPU with `capacity` has exactly `performance`.
fn frequency_in_proportion(highest: Kilohertz, capacity: Capacity, performance: u32) -> Kilohertz {
    let scaled = u64::from(highest.0) * u64::from(performance);
    match scaled.checked_div(u64::from(capacity.0)) {
        Some(khz) => Kilohertz(u32::try_from(khz).unwrap_or(u32::MAX)),
        None => highest,
    }
}

/// Utilisation and a quarter more, so that a busy CPU does not run at its limit, but no more than
/// the CPU's capacity (`sugov_effective_cpu_perf()`).
fn add_quarter_headroom(utilisation: Capacity, capacity: Capacity) -> Capacity {
    let wanted = utilisation.0.saturating_add(utilisation.0 / 4);
    Capacity(wanted.min(capacity.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freq::iowait_boost::Settings;
    use proptest::prelude::*;

    const MHZ: [u32; 6] = [408, 600, 816, 1008, 1200, 1416];

    fn domain(cpus: usize, boost: bool) -> Schedutil {
        let table = MHZ.iter().map(|mhz| Kilohertz(mhz * 1_000)).collect();
        let settings = SchedutilSettings {
            boost: Settings {
                enabled: boost,
                ..Settings::default()
            },
            rate_limit: Some(Nanoseconds(100_000)),
        };
        Schedutil::new(
            &settings,
            &FrequencyTable::new(table).unwrap(),
            Capacity(485),
            cpus,
            Nanoseconds::ZERO,
            TickRate::HZ_250,
        )
    }

    /// `get_next_freq()` without `arch_scale_freq_invariant()`: 500 of 1024 become 625 with headroom, relative to the
    /// present frequency.
    #[test]
    fn without_invariance_performance_is_of_the_present_frequency() {
        let frequencies = [400, 600, 800, 1000].map(|mhz| Kilohertz(mhz * 1000));
        let table = FrequencyTable::new(frequencies.into()).unwrap();
        let settings = SchedutilSettings::default();
        let (limit, tick) = (Nanoseconds::from_millis(1), TickRate::HZ_250);
        let domain = Schedutil::new(&settings, &table, Capacity(1024), 2, limit, tick);
        let mut relative = domain.without_frequency_invariance(table);
        for (ms, utilisation, chosen) in [
            // 305 MHz are enough: the frequency stays.
            (2, 500, None),
            // Fully busy: 500, 750 and 1000 MHz, one step at a time.
            (4, 1024, Some(600_000)),
            (6, 1024, Some(800_000)),
            (8, 1024, Some(1_000_000)),
            // 762, 610 and 488 MHz.
            (10, 500, Some(800_000)),
            (12, 500, None),
            (14, 300, Some(400_000)),
        ] {
            let signals = [signal(utilisation, ms), signal(0, ms)];
            let now = Nanoseconds::from_millis(ms);
            let next = relative.choose_changed_frequency_if_due(now, 0, false, signals.into_iter());
            assert_eq!(next, chosen.map(Kilohertz), "{ms} ms");
        }
    }

    fn signal(utilisation: u32, idle_calls: u64) -> CpuSignal {
        CpuSignal {
            utilisation: Capacity(utilisation),
            idle_calls,
            ..CpuSignal::default()
        }
    }

    fn at(us: u64) -> Nanoseconds {
        Nanoseconds::from_micros(us)
    }

    #[test]
    fn the_lowest_point_with_headroom_is_taken() {
        let mut one = domain(1, false);
        // 1.25 x 1416 MHz x 200/485 = 730 MHz.
        let next =
            one.choose_changed_frequency_if_due(at(1_000), 0, false, [signal(200, 1)].into_iter());
        assert_eq!(next, Some(Kilohertz(816_000)));
        let next =
            one.choose_changed_frequency_if_due(at(2_000), 0, false, [signal(485, 2)].into_iter());
        assert_eq!(next, Some(Kilohertz(1_416_000)));
        let next =
            one.choose_changed_frequency_if_due(at(3_000), 0, false, [signal(0, 3)].into_iter());
        assert_eq!(next, Some(Kilohertz(408_000)));
    }

    #[test]
    fn the_rate_limit_keeps_the_frequency_but_not_the_boost_back() {
        let mut one = domain(1, true);
        // 1416 MHz x 1.25 x 128/1024 = 221 MHz.
        assert_eq!(
            one.choose_changed_frequency_if_due(at(1_000), 0, true, [signal(0, 1)].into_iter()),
            Some(Kilohertz(408_000))
        );
        assert_eq!(
            one.choose_changed_frequency_if_due(at(1_099), 0, true, [signal(400, 2)].into_iter()),
            None
        );
        // The boost doubled at the update that came too soon: 442 MHz.
        assert_eq!(
            one.choose_changed_frequency_if_due(at(1_100), 0, false, [signal(0, 3)].into_iter()),
            Some(Kilohertz(600_000))
        );
    }

    #[test]
    fn a_cpu_that_was_not_idle_keeps_its_frequency() {
        let mut one = domain(1, false);
        one.choose_changed_frequency_if_due(at(1_000), 0, false, [signal(400, 7)].into_iter());
        assert_eq!(
            one.choose_changed_frequency_if_due(at(2_000), 0, false, [signal(0, 7)].into_iter()),
            None
        );
        assert_eq!(
            one.choose_changed_frequency_if_due(at(3_000), 0, false, [signal(0, 8)].into_iter()),
            Some(Kilohertz(408_000))
        );
    }

    /// `cpu_util()` with `boost`: the larger of the two, and no more than the CPU has.
    #[test]
    fn tasks_that_wait_raise_the_frequency() {
        let mut one = domain(1, false);
        // 1416 MHz x 1.25 x 100/485 are 365 MHz, and of 200/485 730 MHz.
        for (ms, runnable, khz) in [(1, 50, 408_000), (2, 200, 816_000), (3, 5_000, 1_416_000)] {
            let waiting = CpuSignal {
                runnable: Capacity(runnable),
                ..signal(100, ms)
            };
            one.choose_changed_frequency_if_due(at(ms * 1_000), 0, false, [waiting].into_iter());
            assert_eq!(one.frequency, Some(Kilohertz(khz)), "{runnable}");
        }
    }

    #[test]
    fn the_busiest_cpu_sets_the_frequency_of_a_domain() {
        let mut two = domain(2, false);
        let signals = [signal(0, 0), signal(300, 0)];
        assert_eq!(
            two.choose_changed_frequency_if_due(at(1_000), 0, false, signals.into_iter()),
            Some(Kilohertz(1_200_000))
        );
        // No holding on in a shared domain.
        let signals = [signal(0, 0), signal(0, 0)];
        assert_eq!(
            two.choose_changed_frequency_if_due(at(2_000), 0, false, signals.into_iter()),
            Some(Kilohertz(408_000))
        );
    }

    proptest! {
        #[test]
        fn more_utilisation_never_means_a_lower_frequency(a in 0_u32..2_000, b in 0_u32..2_000) {
            let [less, more] = [a.min(b), a.max(b)].map(|utilisation| {
                let mut one = domain(1, false);
                one.choose_changed_frequency_if_due(at(1_000), 0, false, [signal(utilisation, 1)].into_iter());
                one.frequency.unwrap()
            });
            prop_assert!(less <= more);
        }

        #[test]
        fn changes_keep_their_distance(
            updates in prop::collection::vec((0_u64..300, 0_u32..600, any::<bool>()), 1..50),
        ) {
            let mut one = domain(1, true);
            let mut now = 1_000;
            let mut last = None;
            for (i, (gap, utilisation, iowait)) in (0..).zip(updates) {
                now += gap;
                if one.choose_changed_frequency_if_due(at(now), 0, iowait, [signal(utilisation, i)].into_iter()).is_some() {
                    prop_assert!(last.is_none_or(|last| now - last >= 100));
                    last = Some(now);
                }
            }
        }
    }
}
