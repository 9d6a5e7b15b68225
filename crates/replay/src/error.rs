//! Reasons for which a replay fails.

use wakepath_trace::recording::RecordingError;

use crate::setup::SetupError;

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// No idle states are known, or the setup is impossible otherwise.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The call log cannot be written.
    #[error("the call log: {0}")]
    Calls(#[from] std::io::Error),
    /// A recorded period is in a state that the CPU does not have.
    #[error(
        "CPU {cpu} was in idle state {state} at {time} ns, and there are only {states} (counted from 0). \
         The recording is of another machine than the states are"
    )]
    NoSuchState {
        /// The CPU.
        cpu: u32,
        /// The index of the state.
        state: u8,
        /// End of the idle period in ns.
        time: u64,
        /// Number of states.
        states: usize,
    },
    /// The callback for progress answered that the replay should stop.
    #[error("stopped before the end of the recording")]
    Stopped,
    /// A governor of one's own no longer answers.
    #[error("the governor {0}")]
    Governor(String),
    /// Neither idle periods nor block I/O.
    #[error("the recording has no idle periods and no block I/O, so there is nothing to replay")]
    NoPeriods,
    /// A recording of more CPUs than any machine has.
    #[error("an event on CPU {0}; the recording is damaged")]
    NoSuchCpu(u32),
}
