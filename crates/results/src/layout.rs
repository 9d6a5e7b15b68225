//! File names in a result directory.

use std::path::{Path, PathBuf};

/// The document.
pub const DOCUMENT: &str = "result.json";
/// The study's copy.
pub(crate) const STUDY: &str = "study.toml";
/// The folder for run files, in a result directory.
pub const RUNS: &str = "runs";
/// The folder for copies of workload files, in a result directory.
pub const WORKLOADS: &str = "workloads";
/// The file with the machine's copy, in results with only one machine.
pub const MACHINE: &str = "machine.toml";
/// The folder for copies of machines, in results with several machines.
pub const MACHINES: &str = "machines";
/// The folder for copies of the user's own idle governors.
pub const GOVERNORS: &str = "governors";

/// Names of the Parquet tables, without ending.
pub(crate) const TABLES: [&str; 6] = [
    "metrics.parquet",
    "latency.parquet",
    "attribution.parquet",
    "idle.parquet",
    "frequency.parquet",
    "timeline.parquet",
];

/// Path of a run's file. The file exists only when the run is finished.
pub fn run_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(RUNS).join(run_file_name(index))
}

/// Name of a run's file: its index with six digits.
pub(crate) fn run_file_name(index: usize) -> String {
    format!("{index:06}.json")
}

/// The run's index from the name of its file; `None` for any other name.
pub(crate) fn run_index_from_file_name(name: &str) -> Option<usize> {
    let index = name.strip_suffix(".json")?.parse().ok()?;
    (run_file_name(index) == name).then_some(index)
}
