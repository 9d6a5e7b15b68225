//! An emulated machine whose CPUs run in turn: the laboratory in docs/laboratory.md.

use serde::{Deserialize, Serialize};

use super::Figure;

/// One thread emulates all CPUs in turn, under one clock.
///
/// A CPU runs until idle, or until any CPU's next timer expires. An extra CPU plays the drives under the same clock.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Emulator {
    /// Work of the drive-playing CPU per interrupt, from wake-up to halt, in thousands of cycles.
    pub drive_wake_kcycles: Figure,
    /// Work of the drive-playing CPU per request, half at the start and half at completion, in thousands of cycles.
    pub drive_request_kcycles: Figure,
    /// How long before the end of a request its timer fires. From then on it only looks at the clock, in us.
    pub drive_lead_us: Figure,
    /// How long it takes to look at the clock once: a request ends with the first look after its time, in us.
    #[serde(default)]
    pub drive_look_us: Figure,
    /// A CPU in its exit latency lets others run, except during the last `exit_hold_us` microseconds.
    #[serde(default)]
    pub exit_hold_us: Figure,
    /// Default source for the table's figures.
    pub source: String,
}

impl Emulator {
    /// All figures by key.
    pub(super) fn figures(&self) -> [(&'static str, &Figure); 5] {
        [
            ("drive_wake_kcycles", &self.drive_wake_kcycles),
            ("drive_request_kcycles", &self.drive_request_kcycles),
            ("drive_lead_us", &self.drive_lead_us),
            ("drive_look_us", &self.drive_look_us),
            ("exit_hold_us", &self.exit_hold_us),
        ]
    }
}
