//! CPU idle states, as declared by a cpuidle driver.

use serde::{Deserialize, Serialize};
use wakepath_units::Nanoseconds;

/// The largest number of idle states that a cpuidle driver can have (`CPUIDLE_STATE_MAX`, `include/linux/cpuidle.h`).
pub const MAX_STATES: usize = 10;

/// Whether a state of this name spins: `POLL` on most machines (`drivers/cpuidle/poll_state.c`), `snooze` on POWER
/// (`drivers/cpuidle/cpuidle-pseries.c` and `cpuidle-powernv.c`).
pub fn is_polling_state_name(name: &str) -> bool {
    matches!(name, "POLL" | "snooze")
}

/// A CPU idle state. Declared latencies are upper bounds; true latencies are part of the machine model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// The driver's name for the state: `POLL`, `C1`, `cpu-sleep`.
    pub name: String,
    /// Worst-case time from the wake-up event to the first instruction, entry included where the
    /// state cannot be left half-entered.
    pub exit_latency: Nanoseconds,
    /// Shortest residency for which entering the state saves energy against the next shallower one.
    pub target_residency: Nanoseconds,
    /// Whether the CPU spins instead of sleeping (`CPUIDLE_FLAG_POLLING`).
    pub polling: bool,
    /// Whether the state is switched off through sysfs; no governor may pick it then.
    pub disabled: bool,
}

/// The 1 to [`MAX_STATES`] idle states of a CPU, shallowest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct IdleStates(Vec<IdleState>);

/// Why a list of idle states is no state table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdleStatesError {
    /// The list of idle states is empty.
    #[error("a state table needs at least one idle state")]
    Empty,
    /// The list has more idle states than a cpuidle driver can have.
    #[error("{0} idle states, but a cpuidle driver has at most {MAX_STATES}")]
    TooMany(usize),
    /// A state has a time that the kernel cannot hold in a signed 64-bit number of nanoseconds.
    #[error(
        "state {0}: a time above 9223372036854775807 ns does not fit the kernel's signed 64 bits"
    )]
    TimeTooLong(usize),
}

impl IdleStates {
    /// Makes a state table, after checking the number of states, and that every time fits the kernel's `s64`.
    pub fn new(states: Vec<IdleState>) -> Result<Self, IdleStatesError> {
        if states.is_empty() {
            return Err(IdleStatesError::Empty);
        }
        if states.len() > MAX_STATES {
            return Err(IdleStatesError::TooMany(states.len()));
        }
        let limit = i64::MAX as u64;
        if let Some(i) = states
            .iter()
            .position(|s| s.exit_latency.0 > limit || s.target_residency.0 > limit)
        {
            return Err(IdleStatesError::TimeTooLong(i));
        }
        Ok(Self(states))
    }

    /// The idle states, shallowest first.
    pub fn as_slice(&self) -> &[IdleState] {
        &self.0
    }
}

impl std::ops::Deref for IdleStates {
    type Target = [IdleState];

    fn deref(&self) -> &[IdleState] {
        &self.0
    }
}
