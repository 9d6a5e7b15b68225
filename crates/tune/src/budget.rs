//! How many requests a search may simulate or replay.

use std::fmt;

/// How many requests a search may simulate or replay; of recorded idle periods events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub u64);

impl Budget {
    /// The budget for a time in seconds, where `measured_requests` requests took `measured_seconds`.
    pub fn from_seconds_at_measured_rate(
        seconds: f64,
        measured_requests: u64,
        measured_seconds: f64,
    ) -> Self {
        let rate = measured_requests as f64 / measured_seconds.max(1e-6);
        Self((seconds * rate).round().max(1.0) as u64)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
