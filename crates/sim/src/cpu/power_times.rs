//! Since when a CPU has been powered, waking up or asleep.

/// A CPU's running time, plain and multiplied by its frequency.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Running {
    /// In ns.
    pub(super) time: u64,
    /// Time in ns times frequency in kHz.
    pub(super) khz_time: u128,
}

impl Running {
    /// Time in ns.
    pub(crate) fn time_ns(&self) -> u64 {
        self.time
    }

    /// Time in ns times frequency in kHz.
    pub(crate) fn khz_time(&self) -> u128 {
        self.khz_time
    }
}

/// Begins of a CPU's present powered, sleeping and waking times, not yet in its totals.
#[derive(Debug)]
pub(crate) struct PowerTimes {
    /// When the present powered time began (busy, waking up or polling); `None` asleep.
    pub(super) powered_since: Option<u64>,
    pub(super) asleep_since: u64,
    /// Index of the idle state that the hardware is really in.
    pub(super) asleep_in: usize,
    /// Index of the idle state that the CPU would be in without other threads on its core.
    pub(super) asked_for: usize,
    /// Total time spent waking up, and when the present wake-up began.
    pub(super) waking: Running,
    pub(super) waking_since: Option<u64>,
    /// Index of the idle state that the CPU leaves.
    pub(super) leaving: usize,
}

impl PowerTimes {
    pub(super) fn powered_from_start() -> Self {
        Self {
            powered_since: Some(0),
            asleep_since: 0,
            asleep_in: 0,
            asked_for: 0,
            waking: Running::default(),
            waking_since: None,
            leaving: 0,
        }
    }
}
