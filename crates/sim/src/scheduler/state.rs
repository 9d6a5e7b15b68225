//! The scheduler's view of a task, and the order among tasks.
//!
//! As the completely fair scheduler in Linux 6.1 (`kernel/sched/fair.c`): the task with the least virtual run time is
//! next; a woken task gets up to half a period of credit and takes the CPU from a task more than the wake-up
//! granularity ahead.

use wakepath_policies::utilisation::{Runnable, Utilisation};

/// Weight of a task with a nice value of 0.
const NORMAL_WEIGHT: u32 = 1024;

/// Weight of a `SCHED_IDLE` task.
const IDLE_WEIGHT: u32 = 3;

/// A round-robin slice in ns (`RR_TIMESLICE`, 100 ms).
const ROUND_ROBIN_SLICE: u64 = 100_000_000;

/// A task's scheduling class, with weight or priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Fair {
        weight: u32,
    },
    /// A `SCHED_IDLE` task, which runs when no other task wants to.
    Idle,
    Realtime {
        priority: u8,
        round_robin: bool,
    },
}

impl Class {
    /// The fair class with the weight for a nice value: each step is worth a factor of 1.25.
    pub(crate) fn fair_with_nice(nice: i8) -> Self {
        let weight = f64::from(NORMAL_WEIGHT) / 1.25_f64.powi(i32::from(nice));
        Self::Fair {
            weight: weight.round() as u32,
        }
    }

    fn realtime_priority_or_zero(self) -> u8 {
        match self {
            Self::Realtime { priority, .. } => priority,
            _ => 0,
        }
    }
}

/// The scheduler's times, in ns. They grow with the number of CPUs, up to 8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunables {
    /// Every runnable task should have a turn in this time (`sched_latency`).
    pub(super) latency: u64,
    /// Shortest turn of a task (`min_granularity`).
    pub(super) granularity: u64,
    /// How far a running task may be ahead of a waking task (`wakeup_granularity`).
    pub(super) wakeup_granularity: u64,
}

impl Tunables {
    pub(crate) fn new(cpus: usize) -> Self {
        let factor = u64::from(1 + cpus.clamp(1, 8).ilog2());
        Self {
            latency: 6_000_000 * factor,
            granularity: 750_000 * factor,
            wakeup_granularity: 1_000_000 * factor,
        }
    }

    /// Whether a waking task takes the CPU from the running one.
    pub(crate) fn preempts(&self, woken: &Entity, running: &Entity) -> bool {
        match (woken.class, running.class) {
            (Class::Realtime { priority, .. }, other) => {
                priority > other.realtime_priority_or_zero()
            }
            (_, Class::Realtime { .. }) | (Class::Idle, Class::Fair { .. }) => false,
            (Class::Fair { .. }, Class::Idle) => true,
            _ => {
                let ahead = running.vruntime.saturating_sub(woken.vruntime);
                ahead > woken.virtual_run_time(self.wakeup_granularity)
            }
        }
    }

    /// Whether a task's turn is over after `ran` ns, with these tasks waiting.
    pub(crate) fn turn_is_over<'a>(
        &self,
        running: &Entity,
        ran: u64,
        waiting: impl Iterator<Item = &'a Entity> + Clone,
    ) -> bool {
        if let Class::Realtime {
            priority,
            round_robin,
        } = running.class
        {
            let mut others = waiting.map(|e| e.class.realtime_priority_or_zero());
            return round_robin && ran >= ROUND_ROBIN_SLICE && others.any(|p| p >= priority);
        }
        let count = waiting.clone().count() as u64 + 1;
        let period = self.latency.max(count * self.granularity);
        let weights: u64 = waiting.clone().map(|e| u64::from(e.weight())).sum();
        let weight = u64::from(running.weight());
        let slice = period * weight / (weights + weight);
        let Some(first) = waiting.map(|e| e.vruntime).min() else {
            return false;
        };
        ran > slice || (ran >= self.granularity && running.vruntime.saturating_sub(first) > slice)
    }
}

/// A task as the scheduler sees it.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(super) class: Class,
    /// Index of the allowed CPU set; `None`: all CPUs.
    pub(super) allowed: Option<usize>,
    /// Run time in ns, weighted, relative to the run queue's.
    pub(super) vruntime: u64,
    /// The task's share of its CPU's utilisation.
    load: Utilisation,
    /// Run time in ns times capacity that the task got since `load` was settled.
    ran: u64,
    /// The task's share of its CPU's runnable signal, if counted.
    runnable: Runnable,
}

impl Default for Entity {
    fn default() -> Self {
        Self {
            class: Class::Fair {
                weight: NORMAL_WEIGHT,
            },
            allowed: None,
            vruntime: 0,
            load: Utilisation::default(),
            ran: 0,
            runnable: Runnable::default(),
        }
    }
}

impl Entity {
    /// Sets the task's scheduling class.
    pub(crate) fn set_class(&mut self, class: Class) {
        self.class = class;
    }

    /// Sets the number of the CPU set on which the task may run; `None`: all CPUs.
    pub(crate) fn set_allowed_cpu_set(&mut self, cpu_set: Option<usize>) {
        self.allowed = cpu_set;
    }

    /// Whether the task is in a real-time class.
    pub(crate) fn is_realtime(&self) -> bool {
        matches!(self.class, Class::Realtime { .. })
    }

    pub(crate) fn weight(&self) -> u32 {
        match self.class {
            Class::Fair { weight } => weight,
            Class::Idle => IDLE_WEIGHT,
            Class::Realtime { .. } => NORMAL_WEIGHT,
        }
    }

    /// Run time in ns, converted to virtual run time by the task's weight.
    fn virtual_run_time(&self, time: u64) -> u64 {
        match self.weight() {
            NORMAL_WEIGHT => time,
            weight => time * u64::from(NORMAL_WEIGHT) / u64::from(weight),
        }
    }

    /// Adds `time` ns of run time on a CPU with this capacity.
    pub(crate) fn add_run_time(&mut self, time: u64, capacity: u32) {
        self.vruntime += self.virtual_run_time(time);
        self.ran += time * u64::from(capacity);
    }

    /// Brings the task's utilisation share up to `now`. Run time since the last call counts as spread evenly.
    pub(crate) fn settle_utilisation(&mut self, now: u64) {
        let elapsed = now - self.load.last_update_ns().min(now);
        if elapsed >= 1024 {
            let mean = std::mem::take(&mut self.ran) / elapsed;
            self.load.account_until(now, mean.min(1024) as u32);
        }
    }

    /// Brings the task's runnable share up to `now`, during which it was runnable or not, and returns the share.
    pub(crate) fn advance_runnable_share(
        &mut self,
        now: u64,
        was_runnable: bool,
        capacity: u32,
    ) -> Runnable {
        self.runnable
            .account_until(now, was_runnable.into(), capacity);
        self.runnable
    }

    /// The task's utilisation share at the last settled time.
    pub(crate) fn utilisation_share(&self) -> Utilisation {
        self.load
    }

    /// Rebases the virtual run time for a run queue with another least virtual run time.
    pub(crate) fn rebase_vruntime(&mut self, old_least: u64, new_least: u64) {
        self.vruntime = (self.vruntime + new_least).saturating_sub(old_least);
    }

    /// Sets the virtual run time of a waking task, relative to the run queue's least: long sleep earns half a period at most.
    pub(super) fn place_after_sleep(&mut self, least_vruntime: u64, tunables: &Tunables) {
        let credit = least_vruntime.saturating_sub(tunables.latency / 2);
        self.vruntime = self.vruntime.max(credit);
    }

    /// Key by which tasks are ordered: the task with the smallest key runs first.
    pub(crate) fn run_order_key(&self) -> (u8, u64) {
        match self.class {
            Class::Realtime { priority, .. } => (u8::MAX - priority, 0),
            // An idle task's low weight makes run time grow fast enough.
            Class::Fair { .. } | Class::Idle => (u8::MAX, self.vruntime),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fair(nice: i8, vruntime: u64) -> Entity {
        Entity {
            class: Class::fair_with_nice(nice),
            vruntime,
            ..Entity::default()
        }
    }

    fn realtime(priority: u8, round_robin: bool) -> Entity {
        Entity {
            class: Class::Realtime {
                priority,
                round_robin,
            },
            ..Entity::default()
        }
    }

    #[test]
    fn classes_come_before_run_time() {
        let rules = Tunables::new(8);
        let behind = fair(0, 0);
        let ahead = fair(0, rules.wakeup_granularity + 1);
        let idle = Entity {
            class: Class::Idle,
            ..Entity::default()
        };
        assert!(rules.preempts(&behind, &ahead));
        assert!(!rules.preempts(&behind, &fair(0, rules.wakeup_granularity)));
        assert!(!rules.preempts(&ahead, &behind));
        assert!(rules.preempts(&ahead, &idle));
        assert!(!rules.preempts(&idle, &ahead));
        assert!(rules.preempts(&realtime(1, false), &behind));
        assert!(!rules.preempts(&behind, &realtime(1, false)));
        assert!(rules.preempts(&realtime(2, false), &realtime(1, false)));
        assert!(!rules.preempts(&realtime(1, false), &realtime(1, false)));
    }

    #[test]
    fn turns_are_shared_by_weight() {
        let rules = Tunables::new(8);
        let over = |ran, waiting: &[Entity]| rules.turn_is_over(&fair(0, 0), ran, waiting.iter());
        assert!(!over(u64::MAX / 2, &[]));
        assert!(!over(rules.latency / 2, &[fair(0, 0)]));
        assert!(over(rules.latency / 2 + 1, &[fair(0, 0)]));
        assert!(!over(rules.latency / 2 + 1, &[fair(5, 0)]));
        let rr = realtime(5, true);
        assert!(rules.turn_is_over(&rr, ROUND_ROBIN_SLICE, [realtime(5, true)].iter()));
        assert!(!rules.turn_is_over(&rr, ROUND_ROBIN_SLICE, [fair(0, 0)].iter()));
        assert!(!rules.turn_is_over(&realtime(5, false), u64::MAX / 2, [rr].iter()));
    }

    proptest! {
        #[test]
        fn utilisation_is_bounded(runs in prop::collection::vec((1_u64..1 << 30, 0_u32..=1024, 0_u64..1 << 30), 1..40)) {
            let mut entity = Entity::default();
            let mut now = 0;
            for (run, capacity, sleep) in runs {
                now += run;
                entity.add_run_time(run, capacity);
                entity.settle_utilisation(now);
                prop_assert!(entity.utilisation_share().out_of_1024() <= 1024);
                now += sleep;
                entity.settle_utilisation(now);
            }
        }
    }
}
