//! How late timers are that end idle periods: a second look at exits.

use serde::Serialize;

/// Lateness of the timers that ended idle periods of a state: a lower bound of its exit, because hardware may wake before
/// the deadline. Timer slack and the time to the handler are in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimerLateness {
    /// Index of the idle state that the timers ended.
    pub state: u8,
    /// Number of timers that ended an idle period of this state.
    pub timers: u64,
    /// Mean lateness: from a timer's deadline to the end of the idle period, in ns.
    pub mean_ns: f64,
}

/// Number and summed lateness in ns of timers, by idle state.
#[derive(Default)]
pub(crate) struct LatenessTotals {
    states: std::collections::BTreeMap<u8, (u64, u128)>,
}

impl LatenessTotals {
    pub(crate) fn add_timer(&mut self, state: u8, lateness: u64) {
        let (timers, sum) = self.states.entry(state).or_default();
        *timers += 1;
        *sum += u128::from(lateness);
    }

    pub(crate) fn mean_by_state(&self) -> Vec<TimerLateness> {
        let states = self
            .states
            .iter()
            .map(|(state, (timers, sum))| TimerLateness {
                state: *state,
                timers: *timers,
                mean_ns: *sum as f64 / *timers as f64,
            });
        states.collect()
    }
}
