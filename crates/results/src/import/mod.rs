//! Results to compare and to report on: result directories, and what other tools wrote.
//!
//! fio's and hyperfine's output and MMTests logs become what a result directory holds. A file or directory is one policy
//! called after it, unless it compares several itself; a directory of files has a run in each.

pub mod fio;
mod hyperfine;
pub mod mmtests;
pub(crate) mod rt_app;
mod terse;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use wakepath_files::{Links, Tree};
use wakepath_units::pasted::decode_strictly;

use crate::directory::DOCUMENT;
use crate::document::{SCHEMA, VERSION};
use crate::{
    Design, Document, METRICS, MachineInfo, Metric, PolicyInfo, ResultReader, ResultsError,
    RunOrigin, RunRecord, StudyInfo, WorkloadInfo,
};

/// Largest file that is read.
const MAX_BYTES: u64 = 256 << 20;

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultImportError {
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

/// A result.
#[derive(Debug)]
pub struct Opened {
    /// What to call it beside others.
    pub name: String,
    /// What it holds.
    pub results: ResultReader,
}

/// What another tool has measured.
#[derive(Debug, Default)]
pub struct ImportedRuns {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// The tools with their versions.
    pub tools: BTreeMap<String, String>,
    /// Metrics that are not or not so in the dictionary.
    pub metrics: Vec<Metric>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Opens everything that is to be compared. Names are those of files and directories; of equal names the whole paths.
///
/// # Errors
/// Something that is no result, cannot be read, or is of another schema version.
pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Opened>, ResultImportError> {
    for (i, path) in paths.iter().enumerate() {
        let real = |path: &PathBuf| fs::canonicalize(path).ok();
        if real(path).is_some_and(|this| paths[..i].iter().any(|p| real(p).as_ref() == Some(&this)))
        {
            return Err(ResultImportError::Content {
                path: path.clone(),
                message: "given twice; its runs would count as twice as many".to_owned(),
            });
        }
    }
    let names: Vec<String> = paths.iter().map(|p| name_of(p)).collect();
    let opened = paths.iter().zip(&names).map(|(path, name)| {
        let same = names.iter().filter(|n| *n == name).count() > 1;
        let name = if same {
            path.display().to_string()
        } else {
            name.clone()
        };
        let results = open(path, &name)?;
        Ok(Opened { name, results })
    });
    opened.collect()
}

/// Opens one result.
fn open(path: &Path, name: &str) -> Result<ResultReader, ResultImportError> {
    let imported = if !path.is_dir() {
        file(name, path)?
    } else if path.join(DOCUMENT).exists() {
        return Ok(ResultReader::open(path)?);
    } else {
        match mmtests::import(name, path)? {
            Some(imported) => imported,
            None => json_files(name, path)?,
        }
    };
    let document = imported.document(name);
    Ok(ResultReader::of_runs(path, document, imported.runs))
}

/// The JSON files of a directory, a run in each.
fn json_files(name: &str, folder: &Path) -> Result<ImportedRuns, ResultImportError> {
    let read = |source| ResultImportError::Read {
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
    if files.is_empty() {
        let message = format!(
            "neither a result directory ({DOCUMENT}), nor a directory of fio or hyperfine JSON files, nor an MMTests \
             log directory with logs of {}",
            mmtests::SUPPORTED
        );
        return Err(content(folder, message));
    }
    let mut all = ImportedRuns::default();
    for path in files {
        let text = read_inside(folder, &path)?;
        all.append(of_bytes(name, &path, text)?);
    }
    Ok(all)
}

/// A file of fio or hyperfine.
fn file(name: &str, path: &Path) -> Result<ImportedRuns, ResultImportError> {
    of_bytes(name, path, read_bytes(path)?)
}

/// What is in a file of fio or hyperfine.
fn of_bytes(name: &str, path: &Path, bytes: Vec<u8>) -> Result<ImportedRuns, ResultImportError> {
    let text = decode_strictly(bytes).map_err(|_| {
        content(
            path,
            "is neither UTF-8 nor UTF-16 text; expected fio's or hyperfine's JSON",
        )
    })?;
    parse(name, &text).map_err(|e| content(path, e))
}

/// Reads the output of fio or hyperfine, whichever it is. `name` is that of the policy that it measured.
///
/// # Errors
/// It is neither, or a benchmark in it has failed.
pub fn parse(name: &str, text: &str) -> Result<ImportedRuns, String> {
    let imported = if let Some(outputs) = fio::Output::find_all(text) {
        fio::import(name, &outputs?)
    } else if terse::is_terse(text) {
        terse::import(name, text)
    } else {
        hyperfine::import(name, text)
    }?;
    // Numbers that are finite can have a sum that is not.
    match imported.runs.iter().find_map(RunRecord::not_finite) {
        Some((metric, value)) => Err(not_finite(metric, value)),
        None => Ok(imported),
    }
}

fn not_finite(metric: &str, value: f64) -> String {
    format!("{metric} comes to {value}, which is no result")
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

fn content(path: &Path, message: impl Into<String>) -> ResultImportError {
    ResultImportError::Content {
        path: path.to_owned(),
        message: message.into(),
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, ResultImportError> {
    let error = |source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    };
    wakepath_files::read(path, MAX_BYTES).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => error(std::io::Error::new(
            e.kind(),
            "no such result; `wakepath study run` leaves one, and files of fio and hyperfine are taken, too",
        )),
        _ => error(e),
    })
}

/// A file that was found in a folder from somewhere else: a link in it is refused.
fn read_inside(folder: &Path, path: &Path) -> Result<Vec<u8>, ResultImportError> {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let read = Tree::open(folder, Links::Refused).and_then(|tree| tree.read(inside, MAX_BYTES));
    read.map_err(|source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    })
}

impl ImportedRuns {
    /// Runs of a tool.
    fn of(tool: &str, version: &str, runs: Vec<RunRecord>) -> Self {
        Self {
            runs,
            tools: BTreeMap::from([(tool.to_owned(), version.to_owned())]),
            ..Self::default()
        }
    }

    /// Adds the runs of another file, which were made later.
    fn append(&mut self, other: Self) {
        let after = |runs: &[RunRecord]| runs.iter().map(|r| r.key.repeat + 1).max().unwrap_or(0);
        let first = after(&self.runs);
        self.runs.extend(other.runs.into_iter().map(|mut run| {
            run.key.repeat += first;
            run.block += first;
            run.order += first;
            run
        }));
        self.tools.extend(other.tools);
        for metric in other.metrics {
            if !self.metrics.contains(&metric) {
                self.metrics.push(metric);
            }
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// What `result.json` would say. Every policy and workload of the runs is listed in the order of the runs.
    pub fn document(&self, name: &str) -> Document {
        let kind = self.tools.keys().next().map_or("", String::as_str);
        let mut workloads: Vec<WorkloadInfo> = Vec::new();
        let mut policies: Vec<PolicyInfo> = Vec::new();
        for run in &self.runs {
            if !workloads.iter().any(|w| w.name == run.key.workload) {
                workloads.push(WorkloadInfo {
                    name: run.key.workload.clone(),
                    kind: kind.to_owned(),
                    source: name.to_owned(),
                    ..WorkloadInfo::default()
                });
            }
            if !policies.iter().any(|p| p.name == run.key.policy) {
                policies.push(PolicyInfo {
                    name: run.key.policy.clone(),
                    settings: BTreeMap::new(),
                });
            }
        }
        let given = |name: &str| {
            self.runs
                .iter()
                .any(|r| r.metrics.iter().any(|m| m.0 == name))
        };
        let own = |metric: &&Metric| self.metrics.iter().any(|m| m.name == metric.name);
        let mut metrics: Vec<Metric> = METRICS.iter().filter(|m| !own(m)).cloned().collect();
        metrics.extend(self.metrics.iter().cloned());
        // What none of the tables would show otherwise.
        let has_headline = metrics.iter().any(|m| m.headline && given(&m.name));
        for metric in &mut metrics {
            metric.headline |= !has_headline && given(&metric.name);
        }
        let repeats = self.runs.iter().map(|r| r.key.repeat + 1).max();
        Document {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            complete: true,
            shard: None,
            study: StudyInfo {
                name: name.to_owned(),
                title: name.to_owned(),
            },
            backend: RunOrigin::Import,
            tools: self.tools.clone(),
            machines: vec![MachineInfo::default()],
            baseline: policies
                .first()
                .map_or_else(String::new, |p| p.name.clone()),
            workloads,
            policies,
            repeats: repeats.unwrap_or(0),
            design: Design::Unpaired,
            seeds: Vec::new(),
            sha256: BTreeMap::new(),
            questions: Vec::new(),
            metrics,
            level: 0.95,
            margin_percent: 2.0,
            notes: self.notes.clone(),
        }
    }
}
