//! The range that a frequency policy may use.

use serde::Serialize;
use wakepath_units::Kilohertz;

/// Limits to the frequency. At least one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct FrequencyLimits {
    /// The lowest frequency to use.
    pub min: Option<Kilohertz>,
    /// The highest frequency to use.
    pub max: Option<Kilohertz>,
}
