//! An emulated machine whose CPUs run in turn: the laboratory in docs/background/laboratory.md.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// One thread emulates all CPUs in turn, under one clock.
///
/// A CPU runs until idle, or until any CPU's next timer expires. An extra CPU plays the drives under the same clock.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Emulator {
    /// Work of the CPU that plays the drives per interrupt, from wake-up to halt.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub drive_wake_kcycles: Figure,
    /// Work of that CPU per request, half at the start and half at completion.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub drive_request_kcycles: Figure,
    /// How long before the end of a request its timer fires. From then on the CPU only looks at the clock.
    #[schemars(extend("unit" = "us"))]
    pub drive_lead_us: Figure,
    /// How long it takes to look at the clock once: a request ends with the first look after its time. Absent: 0.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub drive_look_us: Figure,
    /// Last part of an exit latency in which a CPU does not let others run. Absent: 0.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub exit_hold_us: Figure,
    /// Interval of the timer that makes the CPU of a program that spins without pauses let others run. Absent: such programs are refused.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub spin_turn_us: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}
