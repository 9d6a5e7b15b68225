//! The range that a frequency policy may use.

use serde::Serialize;
use wakepath_units::Kilohertz;

/// Limits to a CPU's frequency. At least one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct FrequencyLimits {
    /// Lowest frequency that the CPU may use.
    pub min: Option<Kilohertz>,
    /// Highest frequency that the CPU may use.
    pub max: Option<Kilohertz>,
}
