//! Figures of C1 demotion; [`crate::c1_demotion`] has its rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// Demotion by the hardware, which the kernel does not see. It watches how often a CPU wakes up. Above some rate it
/// answers requests for deep states with a shallow one. Linux: `intel_idle` with C1 demotion; MSR
/// `PKG_CST_CONFIG_CONTROL`, bits 26 and 28.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct C1Demotion {
    /// Name of the state entered instead.
    pub to: String,
    /// Names of the demoted states.
    pub states: Vec<String>,
    /// Wake-ups of a CPU that have to lie within `within_us`, so that its requests are demoted; a whole number.
    #[schemars(extend("minimum" = 1.0, "maximum" = 1000.0))]
    pub wake_ups: Figure,
    /// Time for that many wake-ups.
    #[schemars(extend("unit" = "us"))]
    pub within_us: Figure,
    /// Time in the shallow state after which the CPU goes on to what was asked for; 0: never.
    #[schemars(extend("unit" = "us"))]
    pub undemote_us: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}
