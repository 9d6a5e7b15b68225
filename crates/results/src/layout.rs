//! File names in a result directory.

use std::path::{Path, PathBuf};

/// The document.
pub const DOCUMENT: &str = "result.json";
/// The study's copy.
pub(crate) const STUDY: &str = "study.toml";
/// The folder for runs.
pub const RUNS: &str = "runs";
/// The folder for copies of workload files.
pub const WORKLOADS: &str = "workloads";
/// The machine's copy, if there is only one machine.
pub const MACHINE: &str = "machine.toml";
/// The folder for copies of machines, in results with several machines.
pub const MACHINES: &str = "machines";
/// The folder for copies of the user's own idle governors.
pub const GOVERNORS: &str = "governors";

/// The Parquet tables: metrics, latency, attribution, idle, frequency, timeline.
pub(crate) const TABLES: [&str; 6] = [
    "metrics.parquet",
    "latency.parquet",
    "attribution.parquet",
    "idle.parquet",
    "frequency.parquet",
    "timeline.parquet",
];

/// A run's file, by index. The file exists when the run is finished.
pub fn run_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(RUNS).join(run_name(index))
}

/// A run's file name.
pub(crate) fn run_name(index: usize) -> String {
    format!("{index:06}.json")
}

/// A run's index, by file name.
pub(crate) fn run_index(name: &str) -> Option<usize> {
    let index = name.strip_suffix(".json")?.parse().ok()?;
    (run_name(index) == name).then_some(index)
}
