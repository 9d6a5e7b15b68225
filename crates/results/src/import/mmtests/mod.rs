//! Log directories of MMTests.
//!
//! A log directory is `work/log/NAME`, with the benchmark's output in `iter-N/BENCHMARK/logs/`, possibly compressed. The
//! metrics are the same as in MMTests' own tables: [`format`] has the rules for each benchmark.

mod format;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::read::{
    MAX_BYTES, ResultImportError, content_error_at, read_error_at, read_regular_file_in,
};
use super::runs::{ImportedRuns, new_imported_run};

pub use format::{Benchmark, LogSample};

/// Benchmarks whose logs can be imported.
pub const SUPPORTED: &str = "tbench, dbench, hackbench, sqlite, pgbench, schbench, netperf and fio";

/// How many levels of folders are searched for logs.
const DEPTH: usize = 6;

/// Memory for unpacking xz, in KiB: twice what `xz -9` makes necessary.
const XZ_KIB: u32 = 128 << 10;

/// The logs found in MMTests' directory.
#[derive(Default)]
struct LogFiles {
    /// Logs that can be imported, with their workloads.
    logs: Vec<(String, Benchmark, PathBuf)>,
    /// Names of benchmarks without a log that can be imported.
    others: Vec<String>,
}

/// Reads MMTests' log directory as runs under policy `name`; `None` for other directories.
///
/// # Errors
/// Unknown benchmarks, logs without the expected content.
pub(super) fn import_mmtests_if_logs_found(
    name: &str,
    folder: &Path,
) -> Result<Option<ImportedRuns>, ResultImportError> {
    let mut found = LogFiles::default();
    collect_logs_in_subfolders(folder, DEPTH, &mut found)?;
    if found.logs.is_empty() {
        if found.others.is_empty() {
            return Ok(None);
        }
        found.others.sort();
        found.others.dedup();
        let message = format!(
            "MMTests logs of {}, which are not read; those of {SUPPORTED} are",
            found.others.join(", ")
        );
        return Err(content_error_at(folder, message));
    }
    found.logs.sort_by_cached_key(|(workload, _, path)| {
        (
            natural_sort_key(workload),
            natural_sort_key(&path.to_string_lossy()),
        )
    });
    let mut imported = ImportedRuns::from_tool("mmtests", "unknown", Vec::new());
    let mut dependent = false;
    for (workload, benchmark, path) in &found.logs {
        let samples = benchmark
            .parse_samples(&read_and_unpack_log(folder, path)?)
            .map_err(|e| content_error_at(path, e))?;
        add_samples_as_runs(&mut imported, name, workload, &samples);
        dependent |= benchmark.has_interval_samples();
    }
    imported.metrics = format::metrics_beyond_dictionary();
    if dependent {
        imported.notes.push(
            "samples of a few seconds of one run each, as MMTests averages them. They are not independent runs, so \
             intervals are narrower than repeated runs would give"
                .to_owned(),
        );
    }
    Ok(Some(imported))
}

/// Adds each sample of a log as a run; further iterations continue the numbering of repeats.
fn add_samples_as_runs(
    imported: &mut ImportedRuns,
    policy: &str,
    workload: &str,
    samples: &[LogSample],
) {
    for sample in samples {
        let workload = match &sample.part {
            Some(part) => format!("{workload} {part}"),
            None => workload.to_owned(),
        };
        let first = sample.values.first().map(|(metric, _)| metric);
        let earlier = imported.runs.iter().filter(|run| {
            run.key.workload == workload && run.metrics.first().map(|(metric, _)| metric) == first
        });
        let repeat = earlier.count() as u32;
        let mut run = new_imported_run(&workload, policy, repeat);
        run.metrics.clone_from(&sample.values);
        imported.runs.push(run);
    }
}

fn collect_logs_in_subfolders(
    folder: &Path,
    depth: usize,
    found: &mut LogFiles,
) -> Result<(), ResultImportError> {
    // The folder `logs` lies in the folder named after the benchmark.
    let is_logs = folder.ends_with("logs");
    let parent = folder.parent().filter(|_| is_logs);
    let benchmark = parent
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    let mut known = false;
    for entry in fs::read_dir(folder).map_err(read_error_at(folder))? {
        let entry = entry.map_err(read_error_at(folder))?;
        let path = entry.path();
        if entry.file_type().map_err(read_error_at(folder))?.is_dir() {
            if depth > 0 {
                collect_logs_in_subfolders(&path, depth - 1, found)?;
            }
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let bare = name
            .strip_suffix(".xz")
            .or_else(|| name.strip_suffix(".gz"));
        let log = Benchmark::with_workload_from_log_name(
            benchmark.as_deref().unwrap_or_default(),
            bare.unwrap_or(&name),
        );
        if let Some((benchmark, workload)) = log {
            known = true;
            found.logs.push((workload, benchmark, path));
        }
    }
    found.others.extend(benchmark.filter(|_| !known));
    Ok(())
}

fn read_and_unpack_log(folder: &Path, path: &Path) -> Result<String, ResultImportError> {
    let bytes = read_regular_file_in(folder, path)?;
    let packed = path.extension().and_then(OsStr::to_str);
    let text = match packed {
        Some("gz") => read_unpacked_up_to_limit(path, MultiGzDecoder::new(&bytes[..]))?,
        Some("xz") => {
            read_unpacked_up_to_limit(path, XzReader::new_mem_limit(&bytes[..], true, XZ_KIB))?
        }
        _ => bytes,
    };
    String::from_utf8(text).map_err(|_| content_error_at(path, "is not UTF-8 text"))
}

fn read_unpacked_up_to_limit(path: &Path, packed: impl Read) -> Result<Vec<u8>, ResultImportError> {
    wakepath_files::read_up_to(packed, MAX_BYTES).map_err(read_error_at(path))
}

/// Key to sort names by the numbers in them: 16 clients come after 2.
fn natural_sort_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, after) = rest.split_at(digits);
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        parts.push((text.to_owned(), after[..end].parse().unwrap_or(0)));
        rest = &after[end..];
    }
    parts
}
