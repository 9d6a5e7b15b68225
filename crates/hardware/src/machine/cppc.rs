//! CPPC: performance scale for processors that accept performance levels instead of frequencies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wakepath_units::Kilohertz;

use super::Figure;

/// The performance scale of a cluster's CPUs, which amd-pstate needs (`_CPC` of ACPI, or MSR C001_02B0h), and the
/// processor's own controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cppc {
    /// Highest performance, with boost, of 255.
    pub highest: u8,
    /// Performance that can be sustained with all cores busy.
    pub nominal: u8,
    /// Performance below which a lower frequency saves less energy than performance: the voltage falls no further.
    pub lowest_nonlinear: u8,
    /// Lowest performance.
    pub lowest: u8,
    /// Frequency in MHz at the nominal performance; 0: the firmware does not say, and amd-pstate does not load.
    pub nominal_mhz: u32,
    /// Frequency in MHz at the lowest performance, as the firmware declares it; 0: it does not say.
    pub lowest_mhz: u32,
    /// The CPUs take requests in registers (CPU flag `cppc`); otherwise through the firmware's shared memory, which the
    /// scheduler cannot wait for. Absent: `false`.
    #[serde(default)]
    pub registers: bool,
    /// Highest performance of each core, in order: the core's rank. Absent: all alike.
    #[serde(default)]
    pub ranking: Vec<u8>,
    /// The kernel prefers cores with the highest rank, as without `amd_prefcore=disable` on the command line. Absent:
    /// `true`.
    #[serde(default = "on_by_default", skip_serializing_if = "Clone::clone")]
    pub preferred_cores: bool,
    /// Why, where the source does not say it.
    #[serde(default)]
    pub assumed: Option<String>,
    /// Processor's controller with EPP 128: time from the lowest to the highest frequency under full load.
    #[schemars(extend("unit" = "ms", "minimum" = 0.01, "maximum" = 1e4))]
    pub ramp_ms: Figure,
    /// Processor's controller with EPP 128: share of its highest performance from which on a CPU gets the highest
    /// frequency.
    #[schemars(extend("unit" = "%", "minimum" = 1.0, "maximum" = 99.0))]
    pub full_at_percent: Figure,
}

const fn on_by_default() -> bool {
    true
}

impl Cppc {
    /// The frequency at a performance level, rounded up.
    pub fn frequency_at_performance(&self, performance: u8) -> Kilohertz {
        let scaled = u64::from(self.nominal_mhz) * 1000 * u64::from(performance);
        Kilohertz(scaled.div_ceil(u64::from(self.nominal.max(1))) as u32)
    }

    /// The first fault of the performance scale in a cluster with `cores` cores: key and explanation.
    pub(super) fn first_fault(&self, cores: usize) -> Option<(&'static str, &'static str)> {
        let levels = [
            self.lowest,
            self.lowest_nonlinear,
            self.nominal,
            self.highest,
        ];
        if levels[0] == 0 || !levels.is_sorted() {
            return Some((
                "highest",
                "0 < lowest <= lowest_nonlinear <= nominal <= highest",
            ));
        }
        if self.nominal_mhz > 25_000 || self.lowest_mhz > self.nominal_mhz {
            return Some((
                "nominal_mhz",
                "lowest_mhz is at most nominal_mhz, and that at most 25000",
            ));
        }
        let ranked = |rank: &u8| (self.nominal..=self.highest).contains(rank);
        if !self.ranking.is_empty()
            && (self.ranking.len() != cores || !self.ranking.iter().all(ranked))
        {
            return Some((
                "ranking",
                "one performance for each core, between nominal and highest",
            ));
        }
        None
    }
}
