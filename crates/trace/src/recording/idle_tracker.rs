//! A CPU's idle periods, put together from the events around them.

use serde::{Deserialize, Serialize};
use wakepath_units::Nanoseconds;

use super::{Before, IdleInputs, IdlePeriod};

/// An idle period that a CPU has entered and not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIdlePeriod {
    /// The CPU.
    pub cpu: u32,
    /// Index of the idle state, 0 the shallowest.
    pub state: u8,
    /// When the CPU entered the state, in ns on the recording's clock.
    pub since_ns: u64,
}

/// Puts a CPU's idle periods together: governor's call, entry, exit, and tasks in between, in order of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleTracker {
    call: Option<GovernorCall>,
    /// Time and state of the CPU's idle entry, while the CPU is idle.
    entered: Option<(u64, u8)>,
    ran_task: bool,
    /// Whether the CPU was idle before, so that the absence of tasks since then means something.
    has_history: bool,
}

/// A governor's call before an idle period.
#[derive(Clone, Copy, Debug)]
struct GovernorCall {
    time: u64,
    inputs: IdleInputs,
    stop_tick: Option<bool>,
}

/// Why an idle exit ends no idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnpairedExit {
    /// The idle entry that belongs to the exit was not seen.
    NoEntry,
    /// The idle exit is earlier than the entry, because the clock went back.
    Backwards,
}

impl IdleTracker {
    /// Notes that the governor was asked: its inputs, and its decision about the tick.
    pub fn note_governor_call(
        &mut self,
        time: Nanoseconds,
        inputs: IdleInputs,
        stop_tick: Option<bool>,
    ) {
        self.call = Some(GovernorCall {
            time: time.0,
            inputs,
            stop_tick,
        });
    }

    /// Whether the governor was asked about the next idle period.
    pub fn has_pending_governor_call(&self) -> bool {
        self.call.is_some()
    }

    /// Notes that a task ran since the last idle period.
    pub fn note_task_ran(&mut self) {
        self.ran_task = true;
    }

    /// Whether the CPU is in an idle state.
    pub(super) fn is_idle(&self) -> bool {
        self.entered.is_some()
    }

    /// The idle period in which the CPU, of this number, is now; `None` if the CPU runs or its entry was not seen.
    pub fn open_period(&self, cpu: u32) -> Option<OpenIdlePeriod> {
        let (since_ns, state) = self.entered?;
        Some(OpenIdlePeriod {
            cpu,
            state,
            since_ns,
        })
    }

    /// Notes that the CPU enters an idle state.
    pub fn note_idle_entry(&mut self, time: Nanoseconds, state: u8) {
        self.entered = Some((time.0, state));
    }

    /// Ends the CPU's idle period at `time`, and returns it, unless the entry is missing.
    pub fn end_idle_period(&mut self, time: Nanoseconds) -> Option<IdlePeriod> {
        self.try_end_idle_period(time).ok()
    }

    /// Ends the CPU's idle period at `time`, and returns it, or why there is none.
    pub(super) fn try_end_idle_period(
        &mut self,
        time: Nanoseconds,
    ) -> Result<IdlePeriod, UnpairedExit> {
        let before = self.take_activity_before();
        let call = self.call.take();
        let (entered, state) = self.entered.take().ok_or(UnpairedExit::NoEntry)?;
        let duration = time.0.checked_sub(entered).ok_or(UnpairedExit::Backwards)?;
        Ok(IdlePeriod {
            state,
            duration: Nanoseconds(duration),
            inputs: call.map_or_else(IdleInputs::default, |call| {
                call.inputs_with_select_lead(entered)
            }),
            before,
            stop_tick: call.and_then(|call| call.stop_tick),
            ..IdlePeriod::default()
        })
    }

    /// Ends the governor's call without an idle state: work came first, or the driver refused. Returns an idle period
    /// without a length in the state that the governor chose, unless the governor was not asked.
    pub fn end_call_without_idle_entry(&mut self, state: u8) -> Option<IdlePeriod> {
        let call = self.call.take()?;
        Some(IdlePeriod {
            state,
            inputs: call.inputs,
            before: self.take_activity_before(),
            stop_tick: call.stop_tick,
            ..IdlePeriod::default()
        })
    }

    /// The CPU's activity since its last idle period; the record starts anew for the next period.
    fn take_activity_before(&mut self) -> Before {
        let had_history = std::mem::replace(&mut self.has_history, true);
        match (std::mem::take(&mut self.ran_task), had_history) {
            (true, _) => Before::Task,
            (false, true) => Before::IdleLoop,
            (false, false) => Before::Unknown,
        }
    }
}

impl GovernorCall {
    /// The governor's inputs, with the time from the call to the idle entry.
    fn inputs_with_select_lead(self, entered: u64) -> IdleInputs {
        let lead = entered.checked_sub(self.time);
        IdleInputs {
            select_lead: self
                .inputs
                .select_lead
                .or_else(|| lead.and_then(|lead| u32::try_from(lead).ok())),
            ..self.inputs
        }
    }
}
