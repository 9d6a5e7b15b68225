//! Log directories of MMTests.
//!
//! A log directory is `work/log/NAME`, with `iter-N/BENCHMARK/logs/` full of what the benchmark itself printed, possibly
//! compressed. What MMTests' own tables make of a benchmark's output, this does, too: [`format`] has each one's rules.

mod format;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{RunKey, RunRecord};
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::read::{MAX_BYTES, ResultImportError, content, read_inside};
use super::runs::ImportedRuns;

pub use format::{Benchmark, LogSample};

/// The benchmarks whose logs can be read.
pub const SUPPORTED: &str = "tbench, dbench, hackbench, sqlite, pgbench, schbench, netperf and fio";

/// Deepest folder that is looked into.
const DEPTH: usize = 6;

/// Memory for unpacking xz, in KiB: twice what `xz -9` makes necessary.
const XZ_KIB: u32 = 128 << 10;

/// What a directory holds.
#[derive(Default)]
struct Found {
    /// Logs that can be read, each with the workload that it is of.
    logs: Vec<(String, Benchmark, PathBuf)>,
    /// Benchmarks with logs of which none can be read.
    others: Vec<String>,
}

/// Reads a log directory of MMTests as runs of policy `name`; `None` if it is none.
///
/// # Errors
/// Logs of benchmarks that are not known, or that do not say what they should.
pub(super) fn import(name: &str, folder: &Path) -> Result<Option<ImportedRuns>, ResultImportError> {
    let mut found = Found::default();
    look(folder, DEPTH, &mut found)?;
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
        return Err(content(folder, message));
    }
    found.logs.sort_by_cached_key(|(workload, _, path)| {
        (natural(workload), natural(&path.to_string_lossy()))
    });
    let mut imported = ImportedRuns::from_tool("mmtests", "unknown", Vec::new());
    let mut dependent = false;
    for (workload, benchmark, path) in &found.logs {
        let samples = benchmark
            .read(&text(folder, path)?)
            .map_err(|e| content(path, e))?;
        add(&mut imported, name, workload, &samples);
        dependent |= benchmark.samples_are_seconds();
    }
    imported.metrics = format::metrics();
    if dependent {
        imported.notes.push(
            "samples of a few seconds of one run each, as MMTests averages them. They are not independent runs, so \
             intervals are narrower than repeated runs would give"
                .to_owned(),
        );
    }
    Ok(Some(imported))
}

/// Each sample is a run; those of further iterations go on counting.
fn add(imported: &mut ImportedRuns, policy: &str, workload: &str, samples: &[LogSample]) {
    for sample in samples {
        let workload = match &sample.part {
            Some(part) => format!("{workload} {part}"),
            None => workload.to_owned(),
        };
        let first = sample.values.first().map(|(metric, _)| metric);
        let of_same = |run: &&RunRecord| {
            run.key.workload == workload && run.metrics.first().map(|(metric, _)| metric) == first
        };
        let repeat = imported.runs.iter().filter(of_same).count() as u32;
        let key = RunKey {
            machine: String::new(),
            workload,
            policy: policy.to_owned(),
            repeat,
        };
        let mut run = RunRecord::new(key, None, repeat, repeat);
        run.metrics.clone_from(&sample.values);
        imported.runs.push(run);
    }
}

fn look(folder: &Path, depth: usize, found: &mut Found) -> Result<(), ResultImportError> {
    let read = |source| ResultImportError::Read {
        path: folder.to_owned(),
        source,
    };
    // The folder `logs` is in that of its benchmark.
    let is_logs = folder.ends_with("logs");
    let name_of = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let benchmark = folder.parent().filter(|_| is_logs).and_then(name_of);
    let mut known = false;
    for entry in fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = entry.path();
        if entry.file_type().map_err(read)?.is_dir() {
            if depth > 0 {
                look(&path, depth - 1, found)?;
            }
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let bare = name
            .strip_suffix(".xz")
            .or_else(|| name.strip_suffix(".gz"));
        let log = Benchmark::of_log(
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

fn text(folder: &Path, path: &Path) -> Result<String, ResultImportError> {
    let bytes = read_inside(folder, path)?;
    let packed = path.extension().and_then(OsStr::to_str);
    let text = match packed {
        Some("gz") => unpack(path, MultiGzDecoder::new(&bytes[..]))?,
        Some("xz") => unpack(path, XzReader::new_mem_limit(&bytes[..], true, XZ_KIB))?,
        _ => bytes,
    };
    String::from_utf8(text).map_err(|_| content(path, "is not UTF-8 text"))
}

fn unpack(path: &Path, packed: impl Read) -> Result<Vec<u8>, ResultImportError> {
    wakepath_files::read_up_to(packed, MAX_BYTES).map_err(|source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    })
}

/// A name with its numbers as numbers: 16 clients come after 2.
fn natural(name: &str) -> Vec<(String, u64)> {
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
