//! Utilisation as the scheduler tracks it: a geometric average with a half-life of 32 ms.
//!
//! Time counts in units of 1024 ns. A signal decays by `2^(-t / 32768)` over `t` units and gains the complement,
//! times the running share (Linux 6.12 `kernel/sched/pelt.c`). This model is continuous, without the kernel's
//! rounding of partial periods.

/// Half-life of a utilisation signal, in units of 1024 ns.
const HALF_LIFE: u64 = 32 * 1024;
/// Fraction bits in a decay factor of utilisation.
const FACTOR_BITS: u32 = 31;
/// Fraction bits in a utilisation signal.
const SIGNAL_BITS: u32 = 20;
/// Half-lives after which nothing is left of a 10-bit utilisation signal with [`SIGNAL_BITS`].
const FORGOTTEN: u64 = 31;

/// Decay factors of utilisation over 0..1024 single units, and over 0..32 whole periods of 1024
/// units.
static UNITS: [u32; 1024] = table_of_powers(UNIT_DECAY);
static PERIODS: [u32; 32] = table_of_powers(PERIOD_DECAY);

/// Decay of utilisation over one unit, and over one period: `2^63` times `2^(-1 / 32768)` and
/// `2^(-1 / 32)`.
const UNIT_DECAY: u64 = 9_223_176_935_331_786_073;
const PERIOD_DECAY: u64 = 9_025_734_193_507_008_925;

/// Table of the powers of a decay factor, starting with the zeroth.
const fn table_of_powers<const N: usize>(factor: u64) -> [u32; N] {
    let mut powers = [0; N];
    let mut power: u64 = 1 << 63;
    let mut index = 0;
    while index < N {
        let half = 1 << (62 - FACTOR_BITS);
        powers[index] = ((power + half) >> (63 - FACTOR_BITS)) as u32;
        power = ((power as u128 * factor as u128 + (1 << 62)) >> 63) as u64;
        index += 1;
    }
    powers
}

/// Factor by which a utilisation signal decays in `units` units of 1024 ns.
#[inline(always)]
fn decay_factor(units: u64) -> u64 {
    // Shortcut: most stretches between two updates of a signal are shorter than a period.
    if let Some(factor) = UNITS.get(units as usize) {
        return u64::from(*factor);
    }
    decay_factor_over_periods(units)
}

#[inline(never)]
fn decay_factor_over_periods(units: u64) -> u64 {
    let half_lives = units / HALF_LIFE;
    if half_lives >= FORGOTTEN {
        return 0;
    }
    let rest = units % HALF_LIFE;
    let whole = u64::from(PERIODS[(rest >> 10) as usize]);
    let part = u64::from(UNITS[(rest & 1023) as usize]);
    ((whole * part) >> FACTOR_BITS) >> half_lives
}

/// A utilisation signal of a CPU or task, from 0 to the scheduler's scale of 1024.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utilisation {
    /// Utilisation times `2^SIGNAL_BITS`.
    value: u64,
    /// Time of the signal's last update, in units of 1024 ns.
    known: u64,
}

impl Utilisation {
    /// Accounts the time up to `now` ns, during which the CPU delivered `running` of 1024 (0 when
    /// idle, its capacity at the current frequency when busy). Earlier times change nothing.
    #[inline(always)]
    pub fn account_until(&mut self, now: u64, running: u32) {
        let now = now >> 10;
        if now <= self.known {
            return;
        }
        let units = now - self.known;
        self.known = now;
        let target = u64::from(running) << SIGNAL_BITS;
        if self.value == target {
            return;
        }
        let factor = decay_factor(units);
        // The product of 30 bits of signal and 31 bits of factor fits 64 bits.
        let keep = |v: u64| (v * factor) >> FACTOR_BITS;
        // Moving towards the target by the forgotten share keeps the signal within its bounds.
        self.value = if self.value >= target {
            target + keep(self.value - target)
        } else {
            target - keep(target - self.value)
        };
    }

    /// Time of the signal's last update, in ns.
    #[inline]
    pub fn last_update_ns(&self) -> u64 {
        self.known << 10
    }

    /// Index of the current period of 1024 units, counted from time 0. The scheduler informs
    /// cpufreq when a new period begins.
    #[inline]
    pub fn current_period_index(&self) -> u64 {
        self.known >> 10
    }

    /// Subtracts the utilisation of a task that leaves the CPU; both signals must have the same
    /// time.
    #[inline]
    pub fn remove_task(&mut self, task: Self) {
        self.value = self.value.saturating_sub(task.value);
    }

    /// Adds the utilisation of a task that comes to the CPU, up to 1024; both signals must have the
    /// same time.
    #[inline]
    pub fn add_task(&mut self, task: Self) {
        self.value = (self.value + task.value).min(1024 << SIGNAL_BITS);
    }

    /// The signal, 0 to 1024.
    #[inline]
    pub fn out_of_1024(&self) -> u32 {
        (self.value >> SIGNAL_BITS) as u32
    }
}

/// How many tasks have been running or waiting, on the scheduler's scale of 1024 for each (`runnable_avg`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Runnable(Utilisation);

impl Runnable {
    /// Highest number of runnable tasks that the signal counts.
    const MOST: u32 = 16;
    /// Signal of a single runnable task, scaled so that [`Self::MOST`] tasks fit.
    const ONE: u32 = 1024 / Self::MOST;

    /// Accounts the time up to `now` ns, during which `tasks` runnable tasks shared a CPU with
    /// `capacity`, up to 1024.
    #[inline(always)]
    pub fn account_until(&mut self, now: u64, tasks: u32, capacity: u32) {
        let tasks = tasks.min(Self::MOST) * Self::ONE;
        self.0.account_until(now, tasks * capacity / 1024);
    }

    /// Subtracts the runnable signal of a task that leaves the CPU; both signals must have the same
    /// time.
    pub fn remove_task(&mut self, task: Self) {
        self.0.remove_task(task.0);
    }

    /// Adds the runnable signal of a task that comes to the CPU; both signals must have the same
    /// time.
    pub fn add_task(&mut self, task: Self) {
        self.0.add_task(task.0);
    }

    /// The runnable signal: 1024 for each task that is always running or waiting.
    pub fn tasks_times_1024(&self) -> u32 {
        ((self.0.value * u64::from(Self::MOST)) >> SIGNAL_BITS) as u32
    }
}

/// Utilisation of a CPU known only by its idle periods. Between idle periods the CPU counts as running at full
/// capacity: recordings and call logs lack the frequency.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuUtilisation {
    signal: Utilisation,
    /// Whether an idle period has been seen; the CPU counts as idle before the first one.
    known: bool,
}

impl CpuUtilisation {
    /// Begins an idle period at `now` ns: the CPU was busy until then. Returns the utilisation, 0
    /// to 1024.
    pub fn begin_idle_period(&mut self, now: u64) -> u16 {
        self.signal
            .account_until(now, if self.known { 1024 } else { 0 });
        self.known = true;
        self.signal.out_of_1024() as u16
    }

    /// Ends an idle period at `now` ns: the CPU was idle until then. Returns the utilisation, 0 to
    /// 1024.
    pub fn end_idle_period(&mut self, now: u64) -> u16 {
        self.signal.account_until(now, 0);
        self.signal.out_of_1024() as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cpu_is_busy_between_its_idle_periods() {
        const MS: u64 = 1_000_000;
        let mut busy = CpuUtilisation::default();
        // Nobody knows what was before the recording.
        assert_eq!(busy.begin_idle_period(500 * MS), 0);
        assert_eq!(busy.end_idle_period(510 * MS), 0);
        let after_long = busy.begin_idle_period(710 * MS);
        assert!((1000..=1024).contains(&after_long), "{after_long}");
        // The half-life is 32 ms of 1024 us.
        let half = busy.end_idle_period(710 * MS + (32 << 20));
        assert!(half.abs_diff(after_long / 2) <= 1, "{half}");
    }

    #[test]
    fn each_task_counts_whole() {
        let mut runnable = Runnable::default();
        runnable.account_until(10_000_000_000, 3, 1024);
        assert_eq!(runnable.tasks_times_1024(), 3 * 1024);
        runnable.account_until(10_000_000_000 + (32 << 20), 1, 1024);
        assert!(
            runnable.tasks_times_1024().abs_diff(2 * 1024) <= 1,
            "{}",
            runnable.tasks_times_1024()
        );
        let mut task = Runnable::default();
        task.account_until(10_000_000_000 + (32 << 20), 1, 512);
        runnable.remove_task(task);
        assert!(
            runnable.tasks_times_1024().abs_diff(1536) <= 1,
            "{}",
            runnable.tasks_times_1024()
        );
        // More than count, for as long as it takes.
        runnable.account_until(90_000_000_000, 1_000_000, 1024);
        assert_eq!(runnable.tasks_times_1024(), 16 * 1024);
    }

    /// What is left of a signal after some units of time.
    fn exact_factor(units: usize) -> u32 {
        let share = f64::exp2(-(units as f64) / HALF_LIFE as f64);
        (share * (1_u64 << FACTOR_BITS) as f64).round() as u32
    }

    #[test]
    fn tables_hold_the_powers_of_two() {
        assert_eq!(UNITS, std::array::from_fn(exact_factor));
        assert_eq!(PERIODS, std::array::from_fn(|i| exact_factor(1024 * i)));
    }

    #[test]
    fn half_is_left_after_32_periods() {
        let mut u = Utilisation::default();
        u.account_until(10_000_000_000, 1024);
        assert_eq!(u.out_of_1024(), 1024);
        u.account_until(10_000_000_000 + (32 << 20), 0);
        assert!(
            (511..=512).contains(&u.out_of_1024()),
            "{}",
            u.out_of_1024()
        );
    }

    #[test]
    fn a_half_busy_cpu_settles_at_half() {
        let mut u = Utilisation::default();
        for i in 0..20_000_u64 {
            u.account_until(i * 100_000, if i % 2 == 0 { 0 } else { 1024 });
        }
        assert!(
            (500..=524).contains(&u.out_of_1024()),
            "{}",
            u.out_of_1024()
        );
    }

    proptest! {
        #[test]
        fn stays_between_the_least_and_most_it_was_given(steps in prop::collection::vec((0_u64..1 << 36, 0_u32..=1024), 1..50)) {
            let mut u = Utilisation::default();
            let mut now = 0;
            let mut most = 0;
            for (dt, running) in steps {
                now += dt;
                most = most.max(running);
                u.account_until(now, running);
                prop_assert!(u.out_of_1024() <= most);
            }
        }

        #[test]
        fn splitting_an_interval_changes_nothing_to_speak_of(a in 0_u64..1 << 33, b in 0_u64..1 << 33, running in 0_u32..=1024) {
            let (mut whole, mut split) = (Utilisation::default(), Utilisation::default());
            whole.account_until(1 << 30, 700);
            split.account_until(1 << 30, 700);
            whole.account_until((1 << 30) + a + b, running);
            split.account_until((1 << 30) + a, running);
            split.account_until((1 << 30) + a + b, running);
            prop_assert!(whole.out_of_1024().abs_diff(split.out_of_1024()) <= 1);
        }
    }
}
