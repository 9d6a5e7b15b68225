//! A virtual machine whose CPUs take turns: the laboratory of docs/laboratory.md.

use serde::{Deserialize, Serialize};

use super::Figure;

/// One thread runs all CPUs of the machine in turn, and one clock counts what they do.
///
/// A CPU works until it goes idle, or until the next timer of any CPU expires. One CPU more plays the drives: its work is part of
/// the same clock.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Emulator {
    /// Work of the CPU that plays the drives each time that an interrupt wakes it, until it halts again, in thousands of cycles.
    pub drive_wake_kcycles: Figure,
    /// Its work with each request, half when it takes it, half when it completes it, in thousands of cycles.
    pub drive_request_kcycles: Figure,
    /// How long before the end of a request its timer fires. From then on it only looks at the clock, in us.
    pub drive_lead_us: Figure,
    /// How long it takes to look at the clock once: a request ends with the first look after its time, in us.
    #[serde(default)]
    pub drive_look_us: Figure,
    /// A CPU that waits for its exit latency to pass lets others work meanwhile, but for this last part of it, in us.
    #[serde(default)]
    pub exit_hold_us: Figure,
    /// Source of the plain figures.
    pub source: String,
}

impl Emulator {
    /// Every figure with its key.
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
