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
    /// How interrupts count in the utilisation.
    interrupt_time: InterruptTime,
    /// The operating point in force, and its index.
    current: usize,
    now: Point,
    /// The last requested operating point.
    wanted: usize,
    /// The highest allowed by turbo.
    limit: usize,
    /// The highest possible on these cores.
    own_limit: Kilohertz,
    /// The hardware is on its way to another operating point.
    changing: bool,
    /// How long a change stops the CPUs, and until when the last one does.
    stall: u64,
    stalled_until: u64,
    /// How often the frequency has changed, the last change, and the sum over the time until then, in kHz x ns.
    changes: u64,
    changed_at: u64,
    khz_time: u128,
    /// Task time at the operating point in force, and at each point before, in ns.
    task_time: u64,
    task_times: Vec<u64>,
    /// HWP boost counts before anything counted.
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
        let own_limit = table.highest_at_or_below(cluster.own_limit(cpus.start));
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

    /// The cluster's number.
    pub(in crate::frequency) fn cluster(&self) -> usize {
        self.cluster
    }

    /// The CPUs on this clock.
    #[inline(always)]
    pub(crate) fn cpus(&self) -> Range<usize> {
        self.cpus.clone()
    }

    /// Possible frequencies, slowest first.
    pub(in crate::frequency) fn frequencies(&self) -> &[Kilohertz] {
        self.table.as_slice()
    }

    /// How often the frequency has changed.
    pub(in crate::frequency) fn changes(&self) -> u64 {
        self.changes
    }

    /// How interrupt time counts.
    #[inline(always)]
    pub(crate) fn interrupt_time(&self) -> InterruptTime {
        self.interrupt_time
    }

    /// The work done in `time` ns at the frequency in force, rounded down.
    pub(crate) fn work_in(&self, time: u64) -> Cycles {
        self.now.speed.work(time)
    }

    /// Time in ns for `work` from `now` on at the frequency in force, rounded up, and after a change in progress.
    pub(crate) fn time_for(&self, now: u64, work: Cycles) -> u64 {
        self.now.speed.time_rounded_up(work) + self.stalled_until.saturating_sub(now)
    }

    /// The work done between `from` and `now` at the frequency in force, rounded down.
    pub(crate) fn work_between(&self, from: u64, now: u64) -> Cycles {
        self.work_in(now.saturating_sub(from.max(self.stalled_until)))
    }

    /// A CPU's speed at the highest frequency.
    pub(crate) fn full_speed(&self) -> Speed {
        self.full_speed
    }

    /// Index for the operating point in force.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// The capacity at the frequency in force.
    pub(crate) fn capacity_now(&self) -> u32 {
        self.now.capacity
    }

    /// The frequency in force.
    pub(crate) fn frequency(&self) -> Kilohertz {
        self.now.frequency
    }

    pub(crate) fn khz_now(&self) -> u64 {
        u64::from(self.frequency().0)
    }

    /// The scheduler reports on the CPU at `index` in the domain. Returns whether a frequency change begins. `cpus`
    /// are all CPUs in the machine.
    #[inline(always)]
    pub(crate) fn update(&mut self, now: u64, index: usize, report: Report, cpus: &[Cpu]) -> bool {
        let (cpus, khz) = (&cpus[self.cpus.clone()], self.table.as_slice());
        let Some(next) = self
            .decider
            .update(now, index, report, cpus, khz, self.current)
        else {
            return false;
        };
        self.ask_for(next)
    }

    /// The hardware looks at the clock at a slot's end, under this turbo limit. Returns whether a frequency change
    /// begins. `cpus` are all CPUs in the machine; `active` says which CPUs in the domain were awake meanwhile.
    pub(crate) fn end_slot(
        &mut self,
        now: u64,
        limit: Kilohertz,
        cpus: &[Cpu],
        active: &[bool],
    ) -> bool {
        self.limit = self.index_of(self.table.highest_at_or_below(limit.min(self.own_limit)));
        let (cpus, khz) = (&cpus[self.cpus.clone()], self.table.as_slice());
        let next = self.decider.end_slot(now, cpus, active, khz, self.current);
        self.ask_for(next.unwrap_or(self.table.as_slice()[self.wanted]))
    }

    /// Whether the hardware's slots matter to the frequency, turbo limits aside.
    pub(crate) fn follows_slots(&self) -> bool {
        self.decider.follows_slots()
    }

    /// The CPU at `index` wakes up. If all CPUs have slept for longer than a slot, the hardware has gone on deciding
    /// meanwhile, with effect at once. `cpus` are all CPUs in the machine.
    pub(crate) fn wake(&mut self, now: u64, index: usize, cpus: &[Cpu]) {
        if let Some(next) = self.decider.wake(now, index, &cpus[self.cpus.clone()]) {
            self.wanted = self.index_of(next);
            if !self.changing {
                self.take_effect(now);
            }
        }
    }

    fn ask_for(&mut self, next: Kilohertz) -> bool {
        self.wanted = self.index_of(next);
        self.target() != self.current && !std::mem::replace(&mut self.changing, true)
    }

    fn index_of(&self, frequency: Kilohertz) -> usize {
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

    fn target(&self) -> usize {
        self.wanted.min(self.limit)
    }

    fn take_effect(&mut self, now: u64) {
        self.khz_time = self.khz_time_until(now);
        self.changed_at = now;
        self.task_times[self.current] += std::mem::take(&mut self.task_time);
        self.current = self.target();
        self.now = self.points[self.current];
    }

    /// The hardware has followed; requests made meanwhile count.
    pub(crate) fn arrive(&mut self, now: u64) {
        self.take_effect(now);
        self.changing = false;
        self.changes += 1;
        self.stalled_until = now + self.stall;
    }

    /// The frequency summed over time, asleep or not, in kHz x ns.
    pub(crate) fn khz_time_until(&self, now: u64) -> u128 {
        let since = now.saturating_sub(self.changed_at);
        self.khz_time + u128::from(since) * u128::from(self.khz_now())
    }

    /// Takes off the counts in `before`, an earlier state, now that the run is over.
    pub(crate) fn leave_out(&mut self, before: &Self, earlier: u64, now: u64) {
        self.khz_time = self.khz_time_until(now) - before.khz_time_until(earlier);
        self.changed_at = now;
        self.changes -= before.changes;
        self.task_times[self.current] += std::mem::take(&mut self.task_time);
        for (time, before) in self.task_times.iter_mut().zip(&before.task_times) {
            *time -= before;
        }
        self.task_times[before.current] -= before.task_time;
        self.boosts_before = before.decider.hwp_boosts();
    }

    /// HWP boost counts, if on.
    pub(crate) fn hwp_boosts(&self) -> Option<HwpBoostRun> {
        let boosts = self.decider.hwp_boosts()?;
        let before = self.boosts_before.unwrap_or_default();
        Some(HwpBoostRun {
            calls: boosts.calls - before.calls,
            raises: boosts.raises - before.raises,
        })
    }

    /// Notes `time` ns for a task at the frequency in force.
    pub(crate) fn charge_task(&mut self, time: u64) {
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
