//! Writing a result directory, one finished run after the other.
//!
//! A file gets its name only when complete and on the disk, so a kill at any moment loses at most the runs under way.
//! `result.json` comes before the first run and says `"complete": false` until the tables exist. A directory with runs
//! always has a document, and all runs belong to the study in the document.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::atomic;
use crate::document::Document;
use crate::error::{ResultsError, with_path};
use crate::folder::{self, ResultFolder};
use crate::layout::{STUDY, TABLES};
use crate::reader::ResultReader;
use crate::rows::RunKey;
use crate::run_record::RunRecord;
use crate::table_files;

pub use crate::layout::{DOCUMENT, GOVERNORS, MACHINE, MACHINES, RUNS, WORKLOADS, run_path};

/// How to treat an existing directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refuse.
    New,
    /// Go on, if the directory belongs to the same study, also with more repeats.
    Resume,
    /// Replace results.
    Replace,
}

/// Writes a result directory. Nobody else can while it exists.
#[derive(Debug)]
pub struct ResultWriter {
    dir: PathBuf,
    /// The directory, open for reading.
    folder: ResultFolder,
    document: Document,
    /// Indices of runs that existed at the beginning.
    there: Vec<usize>,
    /// Holds the lock.
    _lock: File,
}

impl ResultWriter {
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
        fs::create_dir_all(&dir).map_err(with_path(&dir))?;
        folder::check_document(&document, &dir)?;
        let lock = File::open(&dir).map_err(with_path(&dir))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| ResultsError::Locked(dir.clone()))?;
        let folder = ResultFolder::open(&dir)?;
        let has_results = folder.has(DOCUMENT);
        let mut grown = false;
        if has_results {
            match mode {
                Mode::New => {
                    return Err(ResultsError::Exists {
                        path: dir,
                        message: "results are there already; --resume goes on with them, --force replaces them"
                            .to_owned(),
                    });
                }
                Mode::Resume => grown = check_same_study(&dir, &folder, &document, files)?,
                Mode::Replace => empty_folder(&dir, &folder, files)?,
            }
        } else {
            only_leftovers(&dir, &folder, files)?;
        }
        let mut writer = Self {
            dir,
            folder,
            document,
            there: Vec::new(),
            _lock: lock,
        };
        let optional = [MACHINES, GOVERNORS].into_iter().filter(|folder| {
            let prefix = format!("{folder}/");
            files.iter().any(|(name, _)| name.starts_with(&prefix))
        });
        for name in [RUNS, WORKLOADS].into_iter().chain(optional) {
            let folder = writer.dir.join(name);
            fs::create_dir_all(&folder).map_err(with_path(&folder))?;
            // Nothing is removed or written through a link.
            writer.folder.names(name)?;
            atomic::remove_leftovers(&folder).map_err(with_path(&folder))?;
        }
        atomic::remove_leftovers(&writer.dir).map_err(with_path(&writer.dir))?;
        writer.there = writer.finished()?;
        if !has_results || mode == Mode::Replace {
            writer.write_files(files)?;
            writer.write_document(false)?;
        } else if grown {
            // The tables lack the added repeats. The document comes first and says so.
            writer.write_document(false)?;
            writer.write_files(files)?;
        }
        Ok(writer)
    }

    /// Copies missing and changed files of the study. A new directory gets its document last: from then on the directory
    /// belongs to this study.
    fn write_files(&self, files: &[(String, Vec<u8>)]) -> Result<(), ResultsError> {
        for (name, content) in files {
            let path = self.dir.join(name);
            if self
                .folder
                .read_if_there(name)?
                .is_some_and(|there| there == *content)
            {
                continue;
            }
            atomic::write_atomically(&path, |out| out.write_all(content))
                .map_err(with_path(&path))?;
        }
        Ok(())
    }

    /// Indices of finished runs, ascending.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn finished(&self) -> Result<Vec<usize>, ResultsError> {
        self.folder.run_indices()
    }

    /// Whether the run with an index was finished when the writer began.
    ///
    /// # Errors
    /// The file holds another run than `key`, or no run: its writer numbers runs in another way, or somebody moved the file.
    pub fn has(&self, index: usize, key: &RunKey) -> Result<bool, ResultsError> {
        if self.there.binary_search(&index).is_err() {
            return Ok(false);
        }
        let found = self.folder.any_run(index)?.1.key;
        if found == *key {
            return Ok(true);
        }
        Err(ResultsError::Content {
            path: self.run_path(index),
            message: format!(
                "holds {found}, and the study has {key} in its place; remove the file to run that anew, or write to \
                 another directory"
            ),
        })
    }

    /// Keeps a finished run; `index` is its number among the planned runs.
    ///
    /// # Errors
    /// A metric is no finite number; the file system refuses, for example because it is full.
    pub fn write_run(&self, index: usize, run: &RunRecord) -> Result<(), ResultsError> {
        write_run(&self.dir, index, run)
    }

    /// Keeps a finished run from another directory of the study.
    pub(crate) fn copy_run(&self, index: usize, run: &[u8]) -> Result<(), ResultsError> {
        let path = self.run_path(index);
        atomic::write_atomically(&path, |out| out.write_all(run)).map_err(with_path(&path))
    }

    /// Makes the tables of the runs and says that the results are complete.
    ///
    /// # Errors
    /// The file system refuses, or a run's file was tampered with.
    pub fn finish(self) -> Result<(), ResultsError> {
        // Killed workers leave unfinished files.
        let folder = self.dir.join(RUNS);
        atomic::remove_leftovers(&folder).map_err(with_path(&folder))?;
        table_files::write_tables(&self.dir, &self.document)?;
        self.write_document(true)
    }

    fn run_path(&self, index: usize) -> PathBuf {
        run_path(&self.dir, index)
    }

    fn write_document(&self, complete: bool) -> Result<(), ResultsError> {
        let document = Document {
            complete,
            ..self.document.clone()
        };
        write_json(&self.dir.join(DOCUMENT), &document)
    }
}

/// Keeps a finished run in a directory that another process has begun with a [`ResultWriter`] and will finish. Making a run
/// again writes the same bytes.
///
/// # Errors
/// As [`ResultWriter::write_run`].
pub fn write_run(dir: &Path, index: usize, run: &RunRecord) -> Result<(), ResultsError> {
    if let Some((metric, value)) = run.not_finite() {
        return Err(ResultsError::NotFinite {
            key: run.key.clone(),
            metric: metric.to_owned(),
            value,
        });
    }
    write_json(&run_path(dir, index), run)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ResultsError> {
    atomic::write_atomically(path, |out| {
        // Runs are many and long, and for programs.
        if path.ends_with(DOCUMENT) {
            serde_json::to_writer_pretty(&mut *out, value)?;
        } else {
            serde_json::to_writer(&mut *out, value)?;
        }
        out.write_all(b"\n")
    })
    .map_err(with_path(path))
}

/// Checks that a directory holds results of the same study, perhaps with fewer repeats; returns whether files have to
/// change.
fn check_same_study(
    dir: &Path,
    folder: &ResultFolder,
    wanted: &Document,
    files: &[(String, Vec<u8>)],
) -> Result<bool, ResultsError> {
    let reader = ResultReader::open(dir)?;
    let there = reader.document();
    if there.repeats > wanted.repeats {
        return Err(ResultsError::Exists {
            path: dir.to_owned(),
            message: format!(
                "these results have {} repeats of each run, and the study wants {}: --resume adds runs and takes none \
                 away. Set `repeats` to {} or more, or write to another directory",
                there.repeats, wanted.repeats, there.repeats
            ),
        });
    }
    if let Some(changed) = wanted.changed_file(there) {
        return Err(ResultsError::ChangedFile {
            path: dir.to_owned(),
            file: changed.path,
            there: changed.there,
            now: changed.here,
        });
    }
    let difference = |what: String| ResultsError::Different {
        path: dir.to_owned(),
        what,
    };
    let mut grown = there.repeats < wanted.repeats;
    for (name, content) in files {
        let found = folder.read(name)?;
        if found == *content {
            continue;
        }
        if name != STUDY || !differ_in_repeats(&found, content) {
            return Err(difference(match name.strip_prefix("governors/") {
                Some(_) => format!("the governor of your own in {name}"),
                None => name.clone(),
            }));
        }
        grown = true;
    }
    match different_part(there, wanted) {
        Some(what) => Err(difference(what.to_owned())),
        None => Ok(grown),
    }
}

/// What differs between two documents besides the number of repeats, if anything.
fn different_part(there: &Document, wanted: &Document) -> Option<&'static str> {
    if there.backend != wanted.backend {
        return Some("--on");
    }
    if there.tools != wanted.tools {
        return Some("a tool's version");
    }
    if there.shard != wanted.shard {
        return Some("--shard");
    }
    let as_there = Document {
        complete: there.complete,
        repeats: there.repeats,
        seeds: there.seeds.clone(),
        ..wanted.clone()
    };
    // Simulations have a seed for each repeat.
    let seeds_go_on = wanted.seeds.starts_with(&there.seeds);
    (!seeds_go_on || *there != as_there).then_some(DOCUMENT)
}

/// Whether two texts of a study differ at most in the line that sets `repeats`.
fn differ_in_repeats(one: &[u8], other: &[u8]) -> bool {
    let one = without_repeats(one);
    one.is_some() && one == without_repeats(other)
}

/// The lines of a study without the line that sets `repeats`.
fn without_repeats(study: &[u8]) -> Option<Vec<&str>> {
    let lines = std::str::from_utf8(study).ok()?.lines();
    let kept = lines.filter(|line| {
        let key = line.split('=').next().unwrap_or_default().trim();
        key.trim_matches(['"', '\'']) != "repeats"
    });
    Some(kept.collect())
}

/// Checks that a directory holds at most files that a kill left before this study had a document. Other files belong to
/// somebody: no document explains them, and writing would replace or adopt them.
fn only_leftovers(
    dir: &Path,
    folder: &ResultFolder,
    files: &[(String, Vec<u8>)],
) -> Result<(), ResultsError> {
    let exists = |message: String| ResultsError::Exists {
        path: dir.to_owned(),
        message,
    };
    for name in folder.names("")? {
        let path = dir.join(&name);
        if [RUNS, WORKLOADS, MACHINES, GOVERNORS].contains(&name.as_str()) && path.is_dir() {
            continue;
        }
        match files.iter().find(|(own, _)| *own == name) {
            Some((_, content)) if folder.read(&name).is_ok_and(|found| found == *content) => {}
            Some(_) => {
                return Err(exists(format!(
                    "holds no results, and {name} is not that of this study and would be lost; name another directory"
                )));
            }
            None => {
                let message = "the directory is not empty and holds no results; name another one";
                return Err(exists(message.to_owned()));
            }
        }
    }
    if let Some(name) = folder.names(RUNS)?.first() {
        return Err(exists(format!(
            "holds {RUNS}/{name} and no {DOCUMENT} that says what it is a run of; name another directory, or remove \
             {RUNS}/"
        )));
    }
    for name in folder.copies()? {
        let own = files.iter().find(|(own, _)| *own == name);
        let found = folder.read(&name);
        if own.is_none_or(|(_, content)| found.is_ok_and(|found| found != *content)) {
            return Err(exists(format!(
                "holds no results, and {name} is not that of this study and would be lost; name another directory"
            )));
        }
    }
    Ok(())
}

/// Removes the runs and tables of results that are to be replaced, and copies that the new study does not have. The
/// old document stays until the new one takes its place. At any moment in between the directory holds the unfinished
/// results of either study. No run is there without a document that says of which.
fn empty_folder(
    dir: &Path,
    folder: &ResultFolder,
    files: &[(String, Vec<u8>)],
) -> Result<(), ResultsError> {
    match ResultReader::open(dir) {
        // The tables no longer count: they go next.
        Ok(there) => write_json(
            &dir.join(DOCUMENT),
            &Document {
                complete: false,
                ..there.document().clone()
            },
        )?,
        Err(ResultsError::Version { .. }) => {}
        // The owner is unknown.
        Err(error) => return Err(error),
    }
    for name in TABLES {
        remove_path(&dir.join(name), |path| fs::remove_file(path))?;
    }
    remove_path(&dir.join(RUNS), |path| fs::remove_dir_all(path))?;
    for name in folder.copies()?.into_iter().chain([MACHINE.to_owned()]) {
        if !files.iter().any(|(own, _)| *own == name) {
            remove_path(&dir.join(name), |path| fs::remove_file(path))?;
        }
    }
    Ok(())
}

/// Removes a file or folder, if it exists.
fn remove_path(path: &Path, by: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), ResultsError> {
    match by(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(with_path(path)(e)),
        _ => Ok(()),
    }
}
