//! Estimates of exits, and where they contradict each other.

use serde::Serialize;

use crate::lateness::TimerLateness;

/// A mean in ns with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExitEstimate {
    /// The estimated mean, in ns.
    pub mean_ns: f64,
    /// Lower end of the 95 % interval, in ns.
    pub low_ns: f64,
    /// Upper end of the 95 % interval, in ns.
    pub high_ns: f64,
}

impl ExitEstimate {
    /// The same mean, where a share of requests may have paid nothing, or twice as much.
    pub(crate) fn widen_by_share(self, share: f64) -> Self {
        let width = share * self.mean_ns.abs();
        Self {
            low_ns: self.low_ns - width,
            high_ns: self.high_ns + width,
            ..self
        }
    }

    pub(crate) fn half_width(&self) -> f64 {
        (self.high_ns - self.low_ns) / 2.0
    }
}

/// A state whose exit comes out differently in different ways, by more than the intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    /// Index of the idle state.
    pub state: u8,
    /// By requests, above the reference's exit.
    pub requests: Option<ExitEstimate>,
    /// By experiment.
    pub measured: Option<ExitEstimate>,
    /// By timers; a lower bound.
    pub timers: Option<TimerLateness>,
}
