//! Progress and cancellation of an experiment.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest sleep without a look at the flag of cancellation.
const LOOK: Duration = Duration::from_millis(100);

/// Receives progress from an experiment, and can end the experiment early.
#[derive(Clone, Copy)]
pub struct ExperimentControl<'a> {
    finished: &'a (dyn Fn(usize) + Sync),
    cancelled: &'a AtomicBool,
}

impl<'a> ExperimentControl<'a> {
    /// `finished` gets the number of steps done since its last call; a true `cancelled` ends the experiment.
    pub const fn new(finished: &'a (dyn Fn(usize) + Sync), cancelled: &'a AtomicBool) -> Self {
        Self {
            finished,
            cancelled,
        }
    }

    /// Whether the experiment should end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Reports a finished step.
    pub(crate) fn finish_step(&self) {
        self.finish_steps(1);
    }

    /// Reports finished steps of an experiment that is made of others.
    pub fn finish_steps(&self, steps: usize) {
        (self.finished)(steps);
    }

    /// Sleeps, or returns early at cancellation.
    pub(crate) fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.is_cancelled() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

impl fmt::Debug for ExperimentControl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExperimentControl")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
