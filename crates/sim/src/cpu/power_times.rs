//! Whether a CPU is powered or asleep, and since when.

/// Running time and speed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Running {
    /// In ns.
    pub(super) time: u64,
    /// Time in ns times frequency in kHz.
    pub(super) khz_time: u128,
}

impl Running {
    /// Time in ns.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Time in ns times frequency in kHz.
    pub(crate) fn khz_time(&self) -> u128 {
        self.khz_time
    }
}

/// Begin of the stretch missing in the totals.
#[derive(Debug)]
pub(crate) struct PowerTimes {
    /// When the present powered time began (busy, waking up or polling); `None` asleep.
    pub(super) powered_since: Option<u64>,
    pub(super) asleep_since: u64,
    /// The true sleep state.
    pub(super) asleep_in: usize,
    /// Waking time in all, and when the present wake-up began.
    pub(super) waking: Running,
    pub(super) waking_since: Option<u64>,
    /// The present wake-up's idle state.
    pub(super) leaving: usize,
}

impl PowerTimes {
    pub(super) fn powered() -> Self {
        Self {
            powered_since: Some(0),
            asleep_since: 0,
            asleep_in: 0,
            waking: Running::default(),
            waking_since: None,
            leaving: 0,
        }
    }
}
