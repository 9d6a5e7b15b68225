//! Idle periods of a CPU, and timers that ended one late.

use wakepath_trace::recording::IdlePeriod;

/// An idle period that ends this long after a timer's deadline was not ended by the timer.
const LATEST_TIMER_NS: u64 = 2_000_000;

/// An idle period of a CPU from entry to exit, in ns of the recording's clock, with the state's index.
#[derive(Clone, Copy)]
pub(crate) struct Period {
    pub(crate) entry: u64,
    pub(crate) exit: u64,
    pub(crate) state: u8,
}

impl Period {
    /// Whether the CPU was idle at this time, in this period.
    pub(crate) fn contains_time(&self, time: u64) -> bool {
        self.entry < time && time <= self.exit
    }
}

/// An idle period that ended after a timer was due.
#[derive(Clone, Copy)]
pub(crate) struct LateExit {
    pub(crate) exit: u64,
    pub(crate) state: u8,
    pub(crate) lateness: u64,
}

/// Finds whether an idle period ended soon after its governor's next timer was due, and how late.
pub(crate) fn find_late_timer_exit(idle: &IdlePeriod, period: Period) -> Option<LateExit> {
    let inputs = &idle.inputs;
    let stopped = idle.stop_tick == Some(true) || inputs.tick_stopped == Some(true);
    let wait = if stopped {
        inputs.sleep_length
    } else {
        inputs.delta_tick
    };
    let asked = period
        .entry
        .checked_sub(inputs.select_lead.unwrap_or(0).into())?;
    let due = asked.checked_add_signed(wait?)?;
    let lateness = period
        .exit
        .checked_sub(due)
        .filter(|ns| *ns <= LATEST_TIMER_NS)?;
    Some(LateExit {
        exit: period.exit,
        state: period.state,
        lateness,
    })
}
