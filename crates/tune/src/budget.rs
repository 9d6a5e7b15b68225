//! How many requests a search may simulate.

use std::fmt;

/// How many requests a search may simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub u64);

impl Budget {
    /// The budget for a time in seconds, where `requests` requests took `seconds_of_run`.
    pub fn from_time(seconds: f64, requests: u64, seconds_of_run: f64) -> Self {
        let rate = requests as f64 / seconds_of_run.max(1e-6);
        Self((seconds * rate).round().max(1.0) as u64)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
