//! Idle periods from entries and exits.

use std::collections::HashMap;

use wakepath_units::Nanoseconds;

use super::{Before, Event, EventKind, IdleInputs, IdlePeriod};

/// Makes idle periods from what a kernel trace has, CPU by CPU, in the order of time: what the
/// governor was told, the entry, the exit, and whether a task ran in between.
#[derive(Clone, Debug, Default)]
pub struct IdlePairs {
    cpus: HashMap<u32, Cpu>,
    /// Tasks are recorded, so that where none is seen none ran.
    tasks_known: bool,
    counts: PairCounts,
}

/// Entries and exits that make no idle period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Idle periods.
    pub periods: u64,
    /// Exits without an entry, except for each CPU's first exit: the CPU was idle when the recording began.
    pub missing_entries: u64,
    /// Entries without an exit, but for the last entry of a CPU.
    pub missing_exits: u64,
    /// Exits before their entry, as happens when a clock jumps back.
    pub backwards: u64,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    inputs: IdleInputs,
    stop_tick: Option<bool>,
    asked: Option<u64>,
    entered: Option<(u64, u8)>,
    /// Something is known of what it did since its last idle period.
    exited: bool,
    ran_task: bool,
    seen: bool,
}

impl IdlePairs {
    /// `tasks_known`: [`IdlePairs::task`] is called for every task that begins to run.
    pub fn new(tasks_known: bool) -> Self {
        Self {
            tasks_known,
            ..Self::default()
        }
    }

    /// From now on [`IdlePairs::task`] is called for every task that begins to run.
    pub fn tasks_are_recorded(&mut self) {
        self.tasks_known = true;
    }

    /// Periods made so far, and what was left over.
    pub fn counts(&self) -> PairCounts {
        self.counts
    }

    /// The governor was asked, and decided about the tick.
    pub fn governor(
        &mut self,
        cpu: u32,
        time: Nanoseconds,
        inputs: IdleInputs,
        stop_tick: Option<bool>,
    ) {
        let c = self.cpus.entry(cpu).or_default();
        c.inputs = inputs;
        c.stop_tick = stop_tick;
        c.asked = Some(time.0);
    }

    /// A task began to run.
    pub fn task(&mut self, cpu: u32) {
        self.cpus.entry(cpu).or_default().ran_task = true;
    }

    /// The CPU enters idle state `state`.
    pub fn enter(&mut self, cpu: u32, time: Nanoseconds, state: u8) {
        let c = self.cpus.entry(cpu).or_default();
        c.seen = true;
        if c.entered.replace((time.0, state)).is_some() {
            self.counts.missing_exits += 1;
        }
    }

    /// The CPU leaves its idle state: the period, unless its entry is missing.
    pub fn exit(&mut self, cpu: u32, time: Nanoseconds) -> Option<Event> {
        let tasks_known = self.tasks_known;
        let c = self.cpus.entry(cpu).or_default();
        let first = !std::mem::replace(&mut c.seen, true);
        let before = match (tasks_known, c.ran_task, c.exited) {
            (true, true, _) => Before::Task,
            (true, false, true) => Before::IdleLoop,
            _ => Before::Unknown,
        };
        let mut inputs = std::mem::take(&mut c.inputs);
        let stop_tick = c.stop_tick.take();
        let asked = c.asked.take();
        c.ran_task = false;
        c.exited = true;
        let Some((entered, state)) = c.entered.take() else {
            self.counts.missing_entries += u64::from(!first);
            return None;
        };
        let Some(duration) = time.0.checked_sub(entered) else {
            self.counts.backwards += 1;
            return None;
        };
        if inputs.select_lead.is_none() {
            inputs.select_lead = asked
                .and_then(|asked| entered.checked_sub(asked))
                .and_then(|lead| u32::try_from(lead).ok());
        }
        self.counts.periods += 1;
        Some(Event {
            time,
            cpu,
            kind: EventKind::Idle(IdlePeriod {
                state,
                duration: Nanoseconds(duration),
                inputs,
                before,
                stop_tick,
                got_tick: None,
                poll_limit_hit: None,
            }),
        })
    }

    /// Forgets what a CPU was doing: events of it are missing, or it went offline.
    pub fn forget(&mut self, cpu: u32) {
        self.cpus.remove(&cpu);
    }
}
