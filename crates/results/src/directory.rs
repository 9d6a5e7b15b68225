//! Writing a result directory, one finished run after the other.
//!
//! Every file gets its name only when it is complete and on the disk, so a kill at any moment loses at most the runs
//! under way. `result.json` comes before the first run and says `"complete": false` until the tables are there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::atomic;
use crate::document::{Document, VERSION};
use crate::reader::{self, Reader};
use crate::rows::Run;
use crate::tables::{self, Row, TableError};

/// The name of the document.
pub const DOCUMENT: &str = "result.json";
/// The folder of the runs.
pub const RUNS: &str = "runs";
/// The folder of the copies of workload files.
pub const WORKLOADS: &str = "workloads";

/// Why a result directory cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file system refuses.
    #[error("{}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No results there.
    #[error("{}: no result directory: it has no {DOCUMENT}", .0.display())]
    NoResults(PathBuf),
    /// Not what it should be.
    #[error("{}: {message}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Another version of the schema.
    #[error(
        "{}: schema version {found}, and this wakepath reads version {VERSION}; read it with the wakepath that wrote \
         it ({writer}), or run the study again", path.display()
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// What wrote it.
        writer: String,
    },
    /// A table.
    #[error("{}", path.display())]
    Table {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: TableError,
    },
    /// Something is in the way.
    #[error("{}: {message}", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
        /// What to do.
        message: &'static str,
    },
    /// Another process writes to it.
    #[error("{}: another wakepath is writing to it", .0.display())]
    Locked(PathBuf),
    /// `--resume` of something else.
    #[error(
        "{}: these are results of another study ({what} differs); resume with the same study and wakepath, or write \
         to another directory", path.display()
    )]
    Different {
        /// The directory.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// A number that is none.
    #[error(
        "{workload} under {policy}, repeat {repeat}: {metric} is {value}, which is no result; nothing of this run is \
         kept"
    )]
    NotFinite {
        /// The workload.
        workload: String,
        /// The policy.
        policy: String,
        /// The repeat.
        repeat: u32,
        /// The metric.
        metric: String,
        /// Its value.
        value: f64,
    },
}

pub(crate) fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> ResultsError {
    move |source| ResultsError::Io {
        path: path.to_owned(),
        source: source.into(),
    }
}

/// What to do with a directory that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refuse.
    New,
    /// Go on with it, if it belongs to the same study.
    Resume,
    /// Replace it, if it holds results.
    Replace,
}

/// Writes a result directory. Nobody else can while it exists.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    document: Document,
    /// Holds the lock.
    _lock: File,
}

impl Writer {
    /// Begins or goes on. `files` are copied in: a path inside the directory and a content each.
    ///
    /// # Errors
    /// The directory exists and `mode` does not allow that, belongs to another study or is in use; the file system
    /// refuses.
    pub fn open(
        dir: impl Into<PathBuf>,
        document: Document,
        files: &[(String, Vec<u8>)],
        mode: Mode,
    ) -> Result<Self, ResultsError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(at(&dir))?;
        let lock = File::open(&dir).map_err(at(&dir))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| ResultsError::Locked(dir.clone()))?;
        let has_results = dir.join(DOCUMENT).exists();
        if has_results {
            match mode {
                Mode::New => {
                    return Err(ResultsError::Exists {
                        path: dir,
                        message: "results are there already; --resume goes on with them, --force replaces them",
                    });
                }
                Mode::Resume => same_study(&dir, &document, files)?,
                Mode::Replace => {
                    // The document first: without it what is left is no result.
                    Reader::open(&dir).map(drop).or_else(|e| match e {
                        ResultsError::Io { .. } => Err(e),
                        _ => Ok(()),
                    })?;
                    remove(&dir)?;
                }
            }
        } else {
            only_leftovers(&dir)?;
        }
        let writer = Self {
            dir,
            document,
            _lock: lock,
        };
        for folder in [RUNS, WORKLOADS] {
            let folder = writer.dir.join(folder);
            fs::create_dir_all(&folder).map_err(at(&folder))?;
            atomic::sweep(&folder).map_err(at(&folder))?;
        }
        atomic::sweep(&writer.dir).map_err(at(&writer.dir))?;
        if !has_results || mode == Mode::Replace {
            for (name, content) in files {
                let path = writer.dir.join(name);
                atomic::write(&path, |out| out.write_all(content)).map_err(at(&path))?;
            }
            writer.write_document(false)?;
        }
        Ok(writer)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the run of this index is finished.
    pub fn has(&self, index: usize) -> bool {
        self.run_path(index).exists()
    }

    /// Keeps a finished run. Its index says which it is among the planned ones.
    ///
    /// # Errors
    /// A metric is no finite number; the file system refuses, for example because it is full.
    pub fn write_run(&self, index: usize, run: &Run) -> Result<(), ResultsError> {
        if let Some((metric, value)) = run.not_finite() {
            return Err(ResultsError::NotFinite {
                workload: run.key.workload.clone(),
                policy: run.key.policy.clone(),
                repeat: run.key.repeat,
                metric: metric.to_owned(),
                value,
            });
        }
        write_json(&self.run_path(index), run)
    }

    /// Makes the tables of the runs and says that the results are complete.
    ///
    /// # Errors
    /// The file system refuses, or a run's file was tampered with.
    pub fn finish(self) -> Result<(), ResultsError> {
        let runs = reader::runs(&self.dir)?;
        let [metrics, latency, attribution, idle, frequency, timeline] =
            reader::TABLES.map(|name| self.dir.join(name));
        write_table(&metrics, runs.iter().flat_map(Run::metric_rows))?;
        write_table(&latency, runs.iter().flat_map(Run::latency_rows))?;
        write_table(&attribution, runs.iter().flat_map(Run::attribution_rows))?;
        write_table(&idle, runs.iter().flat_map(Run::idle_rows))?;
        write_table(&frequency, runs.iter().flat_map(Run::frequency_rows))?;
        write_table(&timeline, runs.iter().flat_map(Run::timeline_rows))?;
        self.write_document(true)
    }

    fn run_path(&self, index: usize) -> PathBuf {
        self.dir.join(RUNS).join(format!("{index:06}.json"))
    }

    fn write_document(&self, complete: bool) -> Result<(), ResultsError> {
        let document = Document {
            complete,
            ..self.document.clone()
        };
        write_json(&self.dir.join(DOCUMENT), &document)
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ResultsError> {
    atomic::write(path, |out| {
        // Runs are many and long, and for programs.
        if path.ends_with(DOCUMENT) {
            serde_json::to_writer_pretty(&mut *out, value)?;
        } else {
            serde_json::to_writer(&mut *out, value)?;
        }
        out.write_all(b"\n")
    })
    .map_err(at(path))
}

fn write_table<R: Row>(path: &Path, rows: impl Iterator<Item = R>) -> Result<(), ResultsError> {
    atomic::write(path, |out| tables::write(out, rows)).map_err(|source| ResultsError::Table {
        path: path.to_owned(),
        source,
    })
}

/// Whether the directory is the unfinished result of the same study.
fn same_study(
    dir: &Path,
    wanted: &Document,
    files: &[(String, Vec<u8>)],
) -> Result<(), ResultsError> {
    let different = |what: &str| ResultsError::Different {
        path: dir.to_owned(),
        what: what.to_owned(),
    };
    let there = Reader::open(dir)?;
    for (name, content) in files {
        let path = dir.join(name);
        match fs::read(&path) {
            Ok(found) if found == *content => {}
            Ok(_) => return Err(different(name)),
            Err(source) => return Err(ResultsError::Io { path, source }),
        }
    }
    let there = there.document();
    if there.backend != wanted.backend {
        return Err(different("--on"));
    }
    if there.tools != wanted.tools {
        return Err(different("a tool's version"));
    }
    let wanted = Document {
        complete: there.complete,
        ..wanted.clone()
    };
    if *there != wanted {
        return Err(different(DOCUMENT));
    }
    Ok(())
}

/// Names that may be in a directory that was begun and has no document yet.
fn only_leftovers(dir: &Path) -> Result<(), ResultsError> {
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let entry = entry.map_err(at(dir))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let known = [RUNS, WORKLOADS, "study.toml", "machine.toml"].contains(&&*name);
        if !known && !name.starts_with(atomic::UNFINISHED) {
            return Err(ResultsError::Exists {
                path: dir.to_owned(),
                message: "the directory is not empty and holds no results; name another one",
            });
        }
    }
    Ok(())
}

/// Removes results, and only what belongs to them.
fn remove(dir: &Path) -> Result<(), ResultsError> {
    let document = dir.join(DOCUMENT);
    fs::remove_file(&document).map_err(at(&document))?;
    for name in reader::TABLES {
        let path = dir.join(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(&path)(e)),
            _ => {}
        }
    }
    for folder in [RUNS, WORKLOADS] {
        let path = dir.join(folder);
        match fs::remove_dir_all(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(&path)(e)),
            _ => {}
        }
    }
    Ok(())
}
