//! Results to compare: result directories, and what other tools wrote.
//!
//! fio JSON, hyperfine JSON and MMTests logs become what a result directory holds. A file or directory is one policy
//! called after it, unless it compares several itself; a directory of files has a run in each.

pub mod fio;
mod hyperfine;
mod mmtests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use wakepath_compare::results::Source;
use wakepath_results::directory::DOCUMENT;
use wakepath_results::document::{SCHEMA, VERSION};
use wakepath_results::{
    Backend, Design, Document, METRICS, Machine, MetricRow, Policy, Reader, ResultsError, Run,
    StudyInfo, Workload,
};

/// Largest file that is read.
const MAX_BYTES: u64 = 256 << 20;

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A result directory.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The file system refuses.
    #[error("{}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not what it should be.
    #[error("{}: {message}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// Opens everything that is to be compared. Names are those of files and directories; of equal names the whole paths.
///
/// # Errors
/// Something that is no result, cannot be read, or is of another schema version.
pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Source>, ImportError> {
    let mut sources: Vec<Source> = paths.iter().map(|p| open(p)).collect::<Result<_, _>>()?;
    let names: Vec<String> = sources.iter().map(|s| s.name.clone()).collect();
    for (index, source) in sources.iter_mut().enumerate() {
        if names.iter().filter(|n| **n == source.name).count() > 1 {
            source.name = paths[index].display().to_string();
        }
    }
    Ok(sources)
}

/// Opens one result.
fn open(path: &Path) -> Result<Source, ImportError> {
    let name = name_of(path);
    if path.is_dir() {
        if path.join(DOCUMENT).exists() {
            let reader = Reader::open(path)?;
            return Ok(Source {
                name,
                rows: reader.metrics()?,
                document: reader.document().clone(),
            });
        }
        let logs = mmtests::logs(path)?;
        if !logs.is_empty() {
            return mmtests::import(&name, &logs);
        }
        let files = json_files(path)?;
        if files.is_empty() {
            let message = "neither a result directory (result.json), nor a directory of fio or hyperfine JSON \
                 files, nor an MMTests log directory with tbench or dbench logs";
            return Err(content(path, message));
        }
        return merge(
            name.clone(),
            files
                .iter()
                .map(|f| file(&name, f))
                .collect::<Result<_, _>>()?,
        );
    }
    file(&name, path)
}

fn json_files(folder: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let read = |source| ImportError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_some_and(|e| e == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A file of fio or hyperfine.
fn file(name: &str, path: &Path) -> Result<Source, ImportError> {
    let text = read(path)?;
    if let Some(output) = fio::Output::find(&text) {
        let output = output.map_err(|e| content(path, e))?;
        return fio::import(name, &output).map_err(|e| content(path, e));
    }
    hyperfine::import(name, &text).map_err(|e| content(path, e))
}

/// The runs of several files one after the other.
fn merge(name: String, sources: Vec<Source>) -> Result<Source, ImportError> {
    let mut all = sources.into_iter();
    let Some(mut merged) = all.next() else {
        return Err(content(Path::new(&name), "no files"));
    };
    merged.name = name;
    for source in all {
        let first = 1 + merged.rows.iter().map(|r| r.repeat).max().unwrap_or(0);
        merged
            .rows
            .extend(source.rows.into_iter().map(|row| MetricRow {
                repeat: row.repeat + first,
                block: row.block + first,
                order: row.order + first,
                ..row
            }));
        for workload in source.document.workloads {
            if !merged.document.workloads.contains(&workload) {
                merged.document.workloads.push(workload);
            }
        }
        for policy in source.document.policies {
            if !merged.document.policies.contains(&policy) {
                merged.document.policies.push(policy);
            }
        }
    }
    Ok(merged)
}

fn name_of(path: &Path) -> String {
    let stem = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    stem.map_or_else(
        || path.display().to_string(),
        |s| s.to_string_lossy().into_owned(),
    )
}

fn content(path: &Path, message: impl Into<String>) -> ImportError {
    ImportError::Content {
        path: path.to_owned(),
        message: message.into(),
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, ImportError> {
    let error = |source| ImportError::Read {
        path: path.to_owned(),
        source,
    };
    if fs::metadata(path).map_err(error)?.len() > MAX_BYTES {
        return Err(content(path, format!("larger than {MAX_BYTES} bytes")));
    }
    fs::read(path).map_err(error)
}

fn read(path: &Path) -> Result<String, ImportError> {
    String::from_utf8(read_bytes(path)?).map_err(|_| content(path, "is not UTF-8 text"))
}

/// Runs of another tool as a source. Every policy and workload of the runs is listed in the order of the runs.
fn imported(name: &str, tool: (&str, &str), runs: &[Run], notes: Vec<String>) -> Source {
    let mut workloads: Vec<Workload> = Vec::new();
    let mut policies: Vec<Policy> = Vec::new();
    for run in runs {
        if !workloads.iter().any(|w| w.name == run.key.workload) {
            workloads.push(Workload {
                name: run.key.workload.clone(),
                kind: tool.0.to_owned(),
                source: name.to_owned(),
            });
        }
        if !policies.iter().any(|p| p.name == run.key.policy) {
            policies.push(Policy {
                name: run.key.policy.clone(),
                settings: BTreeMap::new(),
            });
        }
    }
    let repeats = runs.iter().map(|r| r.key.repeat + 1).max().unwrap_or(0);
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        complete: true,
        study: StudyInfo {
            name: name.to_owned(),
            title: name.to_owned(),
        },
        backend: Backend::Import,
        tools: BTreeMap::from([(tool.0.to_owned(), tool.1.to_owned())]),
        machine: Machine {
            name: String::new(),
            title: "unknown".to_owned(),
            cpu_kinds: Vec::new(),
            idle_states: Vec::new(),
            drive: String::new(),
        },
        baseline: policies
            .first()
            .map_or_else(String::new, |p| p.name.clone()),
        workloads,
        policies,
        repeats,
        design: Design::Unpaired,
        seeds: Vec::new(),
        questions: Vec::new(),
        metrics: METRICS.to_vec(),
        level: 0.95,
        margin_percent: 2.0,
        notes,
    };
    Source {
        name: name.to_owned(),
        rows: runs.iter().flat_map(Run::metric_rows).collect(),
        document,
    }
}
