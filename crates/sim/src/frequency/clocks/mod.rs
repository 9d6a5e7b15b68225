//! Clocks: frequency requests from cpufreq or the hardware, and when the CPUs run at them.
//!
//! A [`Domain`] is the CPUs on one clock. The [`Decider`] chooses the frequency: the kernel's policy at utilisation
//! updates, or the processor's own controller, which looks at everything in slots (`clock_slot_us`). Turbo limits hold
//! for every decider.

mod amd;
pub(crate) mod cluster;
mod decider;
mod hwp;
mod intel;
pub(crate) mod report;

use std::ops::Range;

use wakepath_policies::freq::{FreqPolicy, FrequencyTable};
use wakepath_units::{Kilohertz, TickRate};

use self::decider::Decider;
pub use self::hwp::HwpBoostRun;
use crate::core::basics::Cycles;
use crate::core::speed::Speed;
use crate::cpu::state::Cpu;
use crate::error::SimError;
use crate::frequency::clocks::cluster::ClusterSetup;
use crate::frequency::clocks::report::{InterruptTime, Report};

/// CPUs that share a clock.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    cluster: usize,
    cpus: Range<usize>,
    table: FrequencyTable,
    points: Vec<Point>,
    /// Speed at the last operating point.
    full_speed: Speed,
    decider: Decider,
    /// How interrupt time counts in a CPU's utilisation.
    interrupt_time: InterruptTime,
    /// Index of the operating point in force, and the point itself.
    current: usize,
    now: Point,
    /// Index of the operating point last requested.
    wanted: usize,
    /// Index of the highest operating point that turbo limits allow.
    limit: usize,
    /// Highest frequency possible on the clock's cores.
    own_limit: Kilohertz,
    /// Whether a frequency change is in progress.
    changing: bool,
    /// How long a frequency change stops the CPUs, and until when the last change does, in ns.
    stall: u64,
    stalled_until: u64,
    /// Number of frequency changes, time of the last change in ns, and frequency summed over the time until then in kHz x ns.
    changes: u64,
    changed_at: u64,
    khz_time: u128,
    /// Run time of tasks in ns, at the operating point in force since the last change, and by point before.
    task_time: u64,
    task_times: Vec<u64>,
    /// HWP boost counts at the end of the warm-up.
    boosts_before: Option<HwpBoostRun>,
}

/// An operating point.
#[derive(Clone, Copy, Debug)]
struct Point {
    frequency: Kilohertz,
    speed: Speed,
    capacity: u32,
}

impl Domain {
    pub(crate) fn new(
        cluster: &ClusterSetup,
        index: usize,
        cpus: Range<usize>,
        (policy, name): (FreqPolicy, &str),
        tick: TickRate,
        irq_time_accounting: bool,
    ) -> Result<Self, SimError> {
        let table = cluster.table.clone();
        let highest = table.as_slice().len() - 1;
        let own_limit = table.highest_at_or_below(cluster.highest_frequency_of_cpu(cpus.start));
        let limit = table.as_slice().partition_point(|f| *f < own_limit);
        let (decider, start) = Decider::new(cluster, cpus.len(), policy, name, tick)?;
        let points: Vec<Point> = (table.as_slice().iter().zip(&cluster.speed))
            .map(|(frequency, speed)| Point {
                frequency: *frequency,
                speed: Speed::new(*speed),
                capacity: if cluster.fixed_speed {
                    cluster.shape.capacity()
                } else {
                    (u64::from(cluster.shape.capacity()) * u64::from(frequency.0)
                        / u64::from(table.highest().0)) as u32
                },
            })
            .collect();
        let interrupt_time = match (decider.follows_utilisation(), irq_time_accounting) {
            (false, _) => InterruptTime::Unused,
            (true, false) => InterruptTime::OfTask,
            (true, true) => InterruptTime::OfCpu,
        };
        Ok(Self {
            cluster: index,
            interrupt_time,
            cpus,
            table,
            decider,
            current: start.min(limit),
            now: points[start.min(limit)],
            task_time: 0,
            task_times: vec![0; points.len()],
            boosts_before: None,
            full_speed: points[highest].speed,
            points,
            wanted: start,
            limit,
            own_limit,
            changing: false,
            stall: cluster.stall,
            stalled_until: 0,
            changes: 0,
            changed_at: 0,
            khz_time: 0,
        })
    }

    /// Number of the clock's cluster.
    pub(in crate::frequency) fn cluster(&self) -> usize {
        self.cluster
    }

    /// Numbers of the CPUs on this clock.
    #[inline(always)]
    pub(crate) fn cpus(&self) -> Range<usize> {
        self.cpus.clone()
    }

    /// Frequencies of the clock's table, slowest first.
    pub(in crate::frequency) fn frequencies(&self) -> &[Kilohertz] {
        self.table.as_slice()
    }

    /// Number of completed frequency changes.
    pub(in crate::frequency) fn frequency_change_count(&self) -> u64 {
        self.changes
    }

    /// How interrupt time counts in the utilisation of the clock's CPUs.
    #[inline(always)]
    pub(crate) fn interrupt_time_rule(&self) -> InterruptTime {
        self.interrupt_time
    }

    /// Work in cycles done in `time` ns at the frequency in force, rounded down.
    pub(crate) fn work_done_in(&self, time: u64) -> Cycles {
        self.now.speed.work_done_in(time)
    }

    /// Time in ns for `work` from `now` on at the frequency in force, rounded up, and after a change in progress.
    pub(crate) fn time_for_work(&self, now: u64, work: Cycles) -> u64 {
        self.now.speed.time_rounded_up(work) + self.stalled_until.saturating_sub(now)
    }

    /// The work done between `from` and `now` at the frequency in force, rounded down.
    pub(crate) fn work_done_between(&self, from: u64, now: u64) -> Cycles {
        self.work_done_in(now.saturating_sub(from.max(self.stalled_until)))
    }

    /// Speed of the clock's CPUs at their highest frequency.
    pub(crate) fn full_speed(&self) -> Speed {
        self.full_speed
    }

    /// Index of the operating point in force.
    pub(crate) fn current_point_index(&self) -> usize {
        self.current
    }

    /// Capacity of one of the clock's CPUs at the frequency in force, out of 1024.
    pub(crate) fn capacity_now(&self) -> u32 {
        self.now.capacity
    }

    /// Frequency of the clock now in force.
    pub(crate) fn frequency(&self) -> Kilohertz {
        self.now.frequency
    }

    pub(crate) fn khz_now(&self) -> u64 {
        u64::from(self.frequency().0)
    }

    /// Handles the scheduler's report on the CPU at `index` in the domain. Returns whether a frequency change begins. `cpus`
    /// are all CPUs in the machine.
    #[inline(always)]
    pub(crate) fn handle_report(
        &mut self,
        now: u64,
        index: usize,
        report: Report,
        cpus: &[Cpu],
    ) -> bool {
        let (cpus, khz) = (&cpus[self.cpus.clone()], self.table.as_slice());
        let Some(next) =
            self.decider
                .request_after_report(now, index, report, cpus, khz, self.current)
        else {
            return false;
        };
        self.request_frequency(next)
    }

    /// Lets the hardware decide at a slot's end, under this turbo limit. Returns whether a frequency change
    /// begins. `cpus` are all CPUs in the machine; `active` says which CPUs in the domain were awake meanwhile.
    pub(crate) fn decide_at_slot_end(
        &mut self,
        now: u64,
        limit: Kilohertz,
        cpus: &[Cpu],
        active: &[bool],
    ) -> bool {
        self.limit = self.index_of_frequency_or_wanted(
            self.table.highest_at_or_below(limit.min(self.own_limit)),
        );
        let (cpus, khz) = (&cpus[self.cpus.clone()], self.table.as_slice());
        let next = self
            .decider
            .frequency_at_slot_end(now, cpus, active, khz, self.current);
        self.request_frequency(next.unwrap_or(self.table.as_slice()[self.wanted]))
    }

    /// Whether the hardware's slots matter to the frequency, turbo limits aside.
    pub(crate) fn follows_hardware_slots(&self) -> bool {
        self.decider.follows_hardware_slots()
    }

    /// Handles the wake-up of the CPU at `index`. If all CPUs slept for longer than a slot, the hardware went on deciding
    /// meanwhile, with effect at once. `cpus` are all CPUs in the machine.
    pub(crate) fn handle_wake_up(&mut self, now: u64, index: usize, cpus: &[Cpu]) {
        if let Some(next) =
            self.decider
                .frequency_after_wake_up(now, index, &cpus[self.cpus.clone()])
        {
            self.wanted = self.index_of_frequency_or_wanted(next);
            if !self.changing {
                self.switch_to_wanted_point(now);
            }
        }
    }

    fn request_frequency(&mut self, next: Kilohertz) -> bool {
        self.wanted = self.index_of_frequency_or_wanted(next);
        self.index_within_limit() != self.current && !std::mem::replace(&mut self.changing, true)
    }

    fn index_of_frequency_or_wanted(&self, frequency: Kilohertz) -> usize {
        let table = self.table.as_slice();
        // A search waits for one comparison after the other; these comparisons are made side by side.
        let lower: u32 = table.iter().map(|f| u32::from(*f < frequency)).sum();
        let index = lower as usize;
        if table.get(index) == Some(&frequency) {
            index
        } else {
            self.wanted
        }
    }

    fn index_within_limit(&self) -> usize {
        self.wanted.min(self.limit)
    }

    fn switch_to_wanted_point(&mut self, now: u64) {
        self.khz_time = self.khz_time_until(now);
        self.changed_at = now;
        self.task_times[self.current] += std::mem::take(&mut self.task_time);
        self.current = self.index_within_limit();
        self.now = self.points[self.current];
    }

    /// Completes a frequency change: the clock switches to the frequency last requested, and stalls the CPUs.
    pub(crate) fn complete_frequency_change(&mut self, now: u64) {
        self.switch_to_wanted_point(now);
        self.changing = false;
        self.changes += 1;
        self.stalled_until = now + self.stall;
    }

    /// Frequency summed over the time until `now`, CPUs asleep or not, in kHz x ns.
    pub(crate) fn khz_time_until(&self, now: u64) -> u128 {
        let since = now.saturating_sub(self.changed_at);
        self.khz_time + u128::from(since) * u128::from(self.khz_now())
    }

    /// Subtracts the totals of `before`, the clock's state at the time `earlier`, at the end of the run.
    pub(crate) fn subtract_earlier(&mut self, before: &Self, earlier: u64, now: u64) {
        self.khz_time = self.khz_time_until(now) - before.khz_time_until(earlier);
        self.changed_at = now;
        self.changes -= before.changes;
        self.task_times[self.current] += std::mem::take(&mut self.task_time);
        for (time, before) in self.task_times.iter_mut().zip(&before.task_times) {
            *time -= before;
        }
        self.task_times[before.current] -= before.task_time;
        self.boosts_before = before.decider.hwp_boost_counts();
    }

    /// HWP boost counts, if on.
    pub(crate) fn hwp_boost_counts(&self) -> Option<HwpBoostRun> {
        let boosts = self.decider.hwp_boost_counts()?;
        let before = self.boosts_before.unwrap_or_default();
        Some(HwpBoostRun {
            calls: boosts.calls - before.calls,
            raises: boosts.raises - before.raises,
        })
    }

    /// Adds `time` ns of task run time at the frequency in force.
    pub(crate) fn add_task_time(&mut self, time: u64) {
        self.task_time += time;
    }

    pub(crate) fn task_time(&self) -> u64 {
        self.task_time + self.task_times.iter().sum::<u64>()
    }

    pub(crate) fn task_khz_time(&self) -> u128 {
        let khz_times = (self.task_times.iter().zip(&self.points))
            .map(|(time, point)| u128::from(*time) * u128::from(point.frequency.0));
        khz_times.sum::<u128>() + u128::from(self.task_time) * u128::from(self.khz_now())
    }
}
