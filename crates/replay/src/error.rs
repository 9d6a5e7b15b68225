//! Reasons for which a replay fails.

use wakepath_trace::recording::RecordingError;

use crate::setup::SetupError;

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Replay failed: the recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Replay failed: no idle states are known, or the setup is impossible otherwise.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Replay failed: the call log cannot be written.
    #[error("the call log: {0}")]
    Calls(#[from] std::io::Error),
    /// Replay failed: a recorded period is in an idle state that the CPU does not have.
    #[error(
        "CPU {cpu} was in idle state {state} at {time} ns, and there are only {states} (counted from 0). \
         The recording is of another machine than the states are"
    )]
    NoSuchState {
        /// The CPU.
        cpu: u32,
        /// Index of the recorded idle state.
        state: u8,
        /// End of the idle period in ns.
        time: u64,
        /// Number of states.
        states: usize,
    },
    /// Replay failed: the progress callback asked to stop.
    #[error("stopped before the end of the recording")]
    Stopped,
    /// Replay failed: a user's own governor no longer answers.
    #[error("the governor {0}")]
    Governor(String),
    /// Replay failed: the recording has neither idle periods nor block I/O.
    #[error("the recording has no idle periods and no block I/O, so there is nothing to replay")]
    NoPeriods,
    /// Replay failed: the recording has a CPU number beyond any machine's.
    #[error("an event on CPU {0}; the recording is damaged")]
    NoSuchCpu(u32),
    /// Replay failed: the recording has no block request, so that no drive did anything.
    #[error("the recording has no block requests: no drive did anything meanwhile")]
    NoBlockRequests,
}
