//! What a processor may draw: the limits that Intel calls PL1 and PL2 and keeps in MSR 610h.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wakepath_units::{Microwatts, Nanoseconds};

use super::Figure;

/// The power limits of each package (RAPL).
///
/// For each limit the processor keeps a running average of what the package draws, weighted exponentially with the
/// limit's window as time constant. It holds the clock of its cores down before an average exceeds its limit. Source:
/// "Package Power Control" in the data sheets, such as Intel 759603: "Tau: An averaging constant used for PL1
/// exponential weighted moving average (EWMA) power calculation".
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerLimit {
    /// Long-term limit, PL1.
    #[schemars(extend("unit" = "mW", "minimum" = 1.0))]
    pub pl1_mw: Figure,
    /// Window of PL1 (tau).
    #[schemars(extend("unit" = "ms", "minimum" = 1.0, "maximum" = 1e6))]
    pub pl1_window_ms: Figure,
    /// Short-term limit, PL2, no lower than PL1. Absent: none.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub pl2_mw: Figure,
    /// Window of PL2, no longer than that of PL1; needed with `pl2_mw`.
    #[schemars(extend("unit" = "ms", "minimum" = 1.0, "maximum" = 1e6))]
    #[serde(default)]
    pub pl2_window_ms: Figure,
    /// How many clusters, in order, are one package and share the limits. Absent: 1.
    #[serde(default = "default_of_one")]
    pub clusters: usize,
    /// Source of the table's plain figures.
    pub source: String,
}

impl PowerLimit {
    /// Each power limit with its averaging window, long-term limit first.
    pub fn limits(&self) -> impl Iterator<Item = (Microwatts, Nanoseconds)> {
        let pl1 = (&self.pl1_mw, &self.pl1_window_ms);
        let pl2 = (&self.pl2_mw, &self.pl2_window_ms);
        [pl1, pl2]
            .into_iter()
            .filter(|(limit, _)| limit.is_given())
            .map(|(limit, window)| {
                let ns = (window.value * 1e6).round() as u64;
                (limit.milliwatts_to_power(), Nanoseconds(ns))
            })
    }

    /// The first impossible value of the limits on a machine with `clusters` clusters: key and explanation.
    pub(super) fn first_fault(&self, clusters: usize) -> Option<(&'static str, &'static str)> {
        if self.pl2_mw.is_given() && self.pl2_mw.value < self.pl1_mw.value {
            Some(("pl2_mw", "the short-term limit is no lower than pl1_mw"))
        } else if self.pl2_mw.is_given() && !self.pl2_window_ms.is_given() {
            Some(("pl2_window_ms", "pl2_mw needs a window"))
        } else if self.pl2_window_ms.is_given() && !self.pl2_mw.is_given() {
            Some(("pl2_mw", "a window needs a limit"))
        } else if self.pl2_window_ms.value > self.pl1_window_ms.value {
            Some(("pl2_window_ms", "no longer than pl1_window_ms"))
        } else if self.clusters == 0 || !clusters.is_multiple_of(self.clusters) {
            Some(("clusters", "the clusters do not make whole packages"))
        } else {
            None
        }
    }
}

const fn default_of_one() -> usize {
    1
}
