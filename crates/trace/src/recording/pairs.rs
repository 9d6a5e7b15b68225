//! Pairs idle entries and exits of a kernel trace into idle periods, on all CPUs.

use std::collections::HashMap;

use wakepath_units::Nanoseconds;

use super::idle_tracker::{IdleTracker, OpenIdlePeriod, UnpairedExit};
use super::{Before, Event, EventKind, IdleInputs};

/// Makes idle periods from the events in a kernel trace, and counts events that make none.
#[derive(Clone, Debug, Default)]
pub struct IdlePairs {
    cpus: HashMap<u32, Cpu>,
    /// Whether tasks are recorded, so that the absence of tasks means something.
    every_task_is_noted: bool,
    counts: PairCounts,
}

/// Numbers of idle entries and exits that make no idle period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Idle periods.
    pub periods: u64,
    /// Number of exits without an entry, except for each CPU's first exit: the CPU was idle when the recording began.
    pub missing_entries: u64,
    /// Number of entries without an exit, but for the last entry of a CPU.
    pub missing_exits: u64,
    /// Number of exits before their entry, as happens when a clock jumps back.
    pub backwards: u64,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    tracker: IdleTracker,
    /// Whether an idle entry or exit of the CPU was seen.
    seen: bool,
}

impl IdlePairs {
    /// Pairs without a known event. `every_task_is_noted`: [`IdlePairs::note_task_ran`] is called for every task that
    /// begins to run.
    pub fn new(every_task_is_noted: bool) -> Self {
        Self {
            every_task_is_noted,
            ..Self::default()
        }
    }

    /// From now on [`IdlePairs::note_task_ran`] is called for every task that begins to run.
    pub fn expect_note_of_every_task(&mut self) {
        self.every_task_is_noted = true;
    }

    /// Numbers of idle periods made so far, and of unpaired events.
    pub fn pair_counts(&self) -> PairCounts {
        self.counts
    }

    /// Notes that a CPU's governor was asked: its inputs, and its decision about the tick.
    pub fn note_governor_call(
        &mut self,
        cpu: u32,
        time: Nanoseconds,
        inputs: IdleInputs,
        stop_tick: Option<bool>,
    ) {
        let tracker = &mut self.cpus.entry(cpu).or_default().tracker;
        tracker.note_governor_call(time, inputs, stop_tick);
    }

    /// Notes that a task began to run on a CPU.
    pub fn note_task_ran(&mut self, cpu: u32) {
        self.cpus.entry(cpu).or_default().tracker.note_task_ran();
    }

    /// Notes that a CPU enters idle state `state`.
    pub fn note_idle_entry(&mut self, cpu: u32, time: Nanoseconds, state: u8) {
        let known = self.cpus.entry(cpu).or_default();
        known.seen = true;
        self.counts.missing_exits += u64::from(known.tracker.is_idle());
        known.tracker.note_idle_entry(time, state);
    }

    /// Ends a CPU's idle period, and returns it, unless the entry is missing.
    pub fn end_idle_period(&mut self, cpu: u32, time: Nanoseconds) -> Option<Event> {
        let known = self.cpus.entry(cpu).or_default();
        let first = !std::mem::replace(&mut known.seen, true);
        match known.tracker.try_end_idle_period(time) {
            Ok(mut period) => {
                self.counts.periods += 1;
                if !self.every_task_is_noted {
                    period.before = Before::Unknown;
                }
                let kind = EventKind::Idle(period);
                Some(Event { time, cpu, kind })
            }
            Err(UnpairedExit::NoEntry) => {
                self.counts.missing_entries += u64::from(!first);
                None
            }
            Err(UnpairedExit::Backwards) => {
                self.counts.backwards += 1;
                None
            }
        }
    }

    /// The idle periods that CPUs have entered and not left, by CPU.
    pub fn open_idle_periods(&self) -> Vec<OpenIdlePeriod> {
        let open = self
            .cpus
            .iter()
            .filter_map(|(cpu, known)| known.tracker.open_period(*cpu));
        let mut periods: Vec<OpenIdlePeriod> = open.collect();
        periods.sort_unstable_by_key(|period| period.cpu);
        periods
    }

    /// Forgets the state of a CPU with missing events, or one that went offline.
    pub fn forget_cpu(&mut self, cpu: u32) {
        self.cpus.remove(&cpu);
    }
}
