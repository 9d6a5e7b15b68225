//! Observers of simulated runs: how far they are, and when they stop.

use std::sync::atomic::{AtomicBool, Ordering};

use wakepath_sim::observer::Observer;
use wakepath_units::Nanoseconds;

/// How far a simulated run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulationProgress {
    /// Simulated time so far, warm-up included.
    Simulated(Nanoseconds),
    /// The run has ended.
    Ended,
}

/// An observer that stops a run as soon as its function returns true.
pub(super) struct StopWhen<F>(pub(super) F);

impl<F: Fn() -> bool> Observer for StopWhen<F> {
    const WATCHES: bool = false;

    fn lets_run_stop(&self) -> bool {
        (self.0)()
    }
}

/// An observer that reports the simulated time now and then, and stops a run that is cancelled.
pub(super) struct RunWatch<'a, R> {
    pub(super) cancelled: &'a AtomicBool,
    pub(super) report_time: R,
}

impl<R: Fn(Nanoseconds)> Observer for RunWatch<'_, R> {
    const WATCHES: bool = false;

    fn simulated_time_reached(&self, now: Nanoseconds) {
        (self.report_time)(now);
    }

    fn lets_run_stop(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
