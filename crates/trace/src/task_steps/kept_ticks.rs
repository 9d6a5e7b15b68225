//! Finds tasks that leave RCU callbacks on their CPUs, by kept ticks.
//!
//! A CPU with callbacks may not stop the tick (`rcu_needs_cpu()` in `kernel/rcu/tree.c`), so the governor hears about the tick as
//! about a timer. A recording has no callbacks. But after a task with a callback in each burst, the CPU could never stop the tick;
//! after other tasks, the CPU sometimes could. A task with timer-wheel timers always due at the next tick looks alike, and keeps
//! the tick as well.

use std::collections::BTreeMap;

use super::observed::MAX_OBSERVED_TASKS;
use crate::recording::{IdlePeriod, TimerKind};

/// Fewest kept ticks for a verdict about a task. A task that ran less often leaves few callbacks.
const FEWEST_KEPT: u64 = 32;

/// Fewest kept ticks for each free tick after a task with callbacks.
const KEPT_FOR_EACH_FREE: u64 = 50;

/// Highest probability of a number of kept ticks by chance.
const CHANCE: f64 = 1e-3;

/// Most tasks counted on a CPU between two ticks.
const MAX_TASKS_BETWEEN_TICKS: usize = 64;

/// Numbers of idle periods by the fate of the tick.
#[derive(Clone, Copy, Debug, Default)]
struct TickCounts {
    /// The tick could not be stopped, and ended the period.
    kept: u64,
    /// The next timer lay beyond the tick.
    free: u64,
}

/// What a CPU did since its last tick.
#[derive(Clone, Debug, Default)]
struct SinceTick {
    /// Tasks that ran.
    ran: Vec<u32>,
    /// Whether the last idle period lasted until the next timer, and the tick may be this timer.
    has_reached_timer: bool,
}

/// Counts, by task, whether CPUs could stop their ticks after it had run.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptTicks {
    cpus: BTreeMap<u32, SinceTick>,
    tasks: BTreeMap<u32, TickCounts>,
    all: TickCounts,
}

impl KeptTicks {
    /// Notes that a CPU begins to run a task.
    pub(super) fn note_running(&mut self, cpu: u32, task: u32) {
        let ran = &mut self.cpus.entry(cpu).or_default().ran;
        if ran.len() < MAX_TASKS_BETWEEN_TICKS && !ran.contains(&task) {
            ran.push(task);
        }
    }

    /// Notes an idle period of a CPU, at its end.
    pub(super) fn note_idle_period(&mut self, cpu: u32, period: &IdlePeriod) {
        let inputs = &period.inputs;
        let since = self.cpus.entry(cpu).or_default();
        since.has_reached_timer = false;
        let (Some(timer), Some(tick)) = (inputs.sleep_length, inputs.delta_tick) else {
            return;
        };
        if inputs.inferred {
            return;
        }
        if timer > tick {
            self.count_for_tasks(cpu, |counts| &mut counts.free);
        } else if inputs.tick_stopped != Some(true) {
            let lead = u64::from(inputs.select_lead.unwrap_or(0));
            let lasted = period.duration.0.saturating_add(lead);
            since.has_reached_timer = u64::try_from(timer).is_ok_and(|timer| lasted >= timer);
        }
    }

    /// Notes a timer that expires on a CPU.
    pub(super) fn note_timer(&mut self, cpu: u32, kind: TimerKind) {
        let since = self.cpus.entry(cpu).or_default();
        let has_reached_timer = std::mem::take(&mut since.has_reached_timer);
        if kind != TimerKind::Tick {
            return;
        }
        if has_reached_timer {
            self.count_for_tasks(cpu, |counts| &mut counts.kept);
        }
        if let Some(since) = self.cpus.get_mut(&cpu) {
            since.ran.clear();
        }
    }

    /// Adds one to a count of all tasks that ran on a CPU since its last tick.
    fn count_for_tasks(&mut self, cpu: u32, count: fn(&mut TickCounts) -> &mut u64) {
        *count(&mut self.all) += 1;
        let Some(since) = self.cpus.get(&cpu) else {
            return;
        };
        for task in &since.ran {
            if self.tasks.len() < MAX_OBSERVED_TASKS || self.tasks.contains_key(task) {
                *count(self.tasks.entry(*task).or_default()) += 1;
            }
        }
    }

    /// Whether a task leaves a callback in each burst. Never, if no CPU could ever stop the tick: then nothing tells tasks from
    /// each other.
    pub(super) fn leaves_callbacks(&self, task: u32) -> bool {
        let Some(TickCounts { kept, free }) = self.tasks.get(&task) else {
            return false;
        };
        let share_of_all = self.all.kept as f64 / (self.all.kept + self.all.free) as f64;
        *kept >= FEWEST_KEPT
            && free.saturating_mul(KEPT_FOR_EACH_FREE) <= *kept
            && *kept as f64 * share_of_all.ln() < CHANCE.ln()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakepath_units::Nanoseconds;

    use super::*;
    use crate::recording::IdleInputs;

    /// An idle period of so many ns, whose governor was told of the next timer and of the next timer or tick.
    fn idle(duration: u64, timer: i64, tick: i64) -> IdlePeriod {
        IdlePeriod {
            duration: Nanoseconds(duration),
            inputs: IdleInputs {
                sleep_length: Some(timer),
                delta_tick: Some(tick),
                ..IdleInputs::default()
            },
            ..IdlePeriod::default()
        }
    }

    /// Rounds of a task that keeps the tick, and then of others that do not.
    fn follow(rounds: u64, free_after_first: u64) -> KeptTicks {
        let mut ticks = KeptTicks::default();
        for _ in 0..rounds {
            ticks.note_running(0, 1);
            ticks.note_running(0, 2);
            ticks.note_idle_period(0, &idle(4_000, 3_900, 3_900));
            ticks.note_timer(0, TimerKind::Tick);
            ticks.note_running(0, 2);
            ticks.note_idle_period(0, &idle(9_000, 9_000, 3_900));
            ticks.note_timer(0, TimerKind::HighResolution);
            ticks.note_timer(0, TimerKind::Tick);
        }
        for _ in 0..free_after_first {
            ticks.note_running(0, 1);
            ticks.note_idle_period(0, &idle(9_000, 9_000, 3_900));
            ticks.note_timer(0, TimerKind::Tick);
        }
        ticks
    }

    #[test]
    fn a_task_that_never_lets_the_tick_stop_leaves_callbacks() {
        let ticks = follow(60, 1);
        assert_eq!(
            [1, 2, 3].map(|task| ticks.leaves_callbacks(task)),
            [true, false, false]
        );
    }

    #[test]
    fn few_ticks_or_some_that_could_stop_tell_nothing() {
        assert!(!follow(FEWEST_KEPT - 1, 0).leaves_callbacks(1));
        assert!(!follow(60, 2).leaves_callbacks(1));
    }

    #[test]
    fn where_no_tick_ever_stops_no_task_leaves_callbacks() {
        let mut ticks = KeptTicks::default();
        for _ in 0..100 {
            ticks.note_running(0, 1);
            ticks.note_idle_period(0, &idle(4_000, 3_900, 3_900));
            ticks.note_timer(0, TimerKind::Tick);
        }
        assert!(!ticks.leaves_callbacks(1));
    }

    #[test]
    fn a_period_that_another_cause_ends_counts_as_neither() {
        for (period, kind) in [
            // The period ended before its timer; the tick came to a busy CPU.
            (idle(3_000, 3_900, 3_900), TimerKind::Tick),
            // A task's timer came before the tick.
            (idle(4_000, 3_900, 3_900), TimerKind::HighResolution),
        ] {
            let mut ticks = KeptTicks::default();
            ticks.note_running(0, 1);
            ticks.note_idle_period(0, &period);
            ticks.note_timer(0, kind);
            assert_eq!((ticks.all.kept, ticks.all.free), (0, 0));
        }
    }

    proptest! {
        /// Any figures are counted without overflow, and no task has more of them than there are.
        #[test]
        fn any_events_are_counted(
            events in prop::collection::vec((0..3_u32, any::<u32>(), any::<u64>(), any::<i64>(), any::<i64>(), any::<u32>()), 1..300),
        ) {
            let mut ticks = KeptTicks::default();
            for (cpu, task, duration, timer, tick, lead) in events {
                ticks.note_running(cpu, task);
                let mut period = idle(duration, timer, tick);
                period.inputs.select_lead = Some(lead);
                ticks.note_idle_period(cpu, &period);
                ticks.note_timer(cpu, if lead % 2 == 0 { TimerKind::Tick } else { TimerKind::Wheel });
            }
            for (task, counts) in &ticks.tasks {
                prop_assert!(counts.kept <= ticks.all.kept && counts.free <= ticks.all.free);
                prop_assert!(!ticks.leaves_callbacks(*task) || counts.kept >= FEWEST_KEPT);
            }
        }
    }
}
