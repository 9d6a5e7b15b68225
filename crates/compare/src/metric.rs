//! The metric dictionary: what each number means, for every table, file and page.

use serde::Serialize;

use crate::Mean;

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates.
    Higher,
    /// Times, power and energy.
    Lower,
}

/// A number that a run gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Its name in files.
    pub name: &'static str,
    /// Its title in tables.
    pub title: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Its unit; empty for plain counts.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// The mean that sums up several runs of it.
    pub mean: Mean,
}

impl Metric {
    /// The metric of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|m| m.name == name)
    }
}

const fn time(name: &'static str, title: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        title,
        meaning,
        unit: "us",
        better: Better::Lower,
        mean: Mean::Arithmetic,
    }
}

const fn power(
    name: &'static str,
    title: &'static str,
    meaning: &'static str,
    unit: &'static str,
) -> Metric {
    Metric {
        name,
        title,
        meaning,
        unit,
        better: Better::Lower,
        mean: Mean::Arithmetic,
    }
}

/// Every metric.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "iops",
        title: "IOPS",
        meaning: "finished requests per second",
        unit: "1/s",
        better: Better::Higher,
        mean: Mean::Harmonic,
    },
    time(
        "mean_us",
        "mean latency",
        "mean time from the system call to its return",
    ),
    time(
        "p50_us",
        "median latency",
        "half of the requests took at most this long",
    ),
    time(
        "p99_us",
        "p99 latency",
        "99 % of the requests took at most this long",
    ),
    time(
        "p999_us",
        "p99.9 latency",
        "99.9 % of the requests took at most this long",
    ),
    power(
        "mean_mw",
        "power",
        "mean power of CPUs, clusters and package",
        "mW",
    ),
    power(
        "per_io_uj",
        "energy per I/O",
        "energy of the machine over finished requests",
        "uJ",
    ),
    power("drive_mw", "drive power", "mean power of the drive", "mW"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_to_their_metric() {
        for metric in METRICS {
            assert_eq!(Metric::find(metric.name), Some(metric));
        }
        assert_eq!(Metric::find("no such"), None);
    }
}
