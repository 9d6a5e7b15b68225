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

/// What to do when the result directory exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refuse.
    New,
    /// Resume the existing results, if they belong to the same study; the study may have more repeats now.
    Resume,
    /// Replace results.
    Replace,
}

/// Writes a result directory under an exclusive lock: a second writer for the same directory is refused.
#[derive(Debug)]
pub struct ResultWriter {
    dir: PathBuf,
    /// The result directory, opened for reading.
    folder: ResultFolder,
    document: Document,
    /// Indices of runs that were finished before this writer began, ascending.
    there: Vec<usize>,
    /// Holds the lock.
    _lock: File,
}

impl ResultWriter {
    /// Locks and begins a result directory, or resumes an existing directory as `mode` allows. `files` are copied in:
    /// each a path inside the directory, and its content.
    ///
    /// # Errors
    /// The directory exists and `mode` does not allow that, belongs to another study or is in use; or the file system
    /// refused.
    pub fn open(
        dir: impl Into<PathBuf>,
        document: Document,
        files: &[(String, Vec<u8>)],
        mode: Mode,
    ) -> Result<Self, ResultsError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(with_path(&dir))?;
        folder::check_document_values(&document, &dir)?;
        let lock = File::open(&dir).map_err(with_path(&dir))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| ResultsError::Locked(dir.clone()))?;
        let folder = ResultFolder::open(&dir)?;
        let has_results = folder.has_file_or_folder(DOCUMENT);
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
                Mode::Resume => {
                    grown =
                        refuse_other_study_else_has_more_repeats(&dir, &folder, &document, files)?;
                }
                Mode::Replace => remove_old_results_except_document(&dir, &folder, files)?,
            }
        } else {
            refuse_foreign_files_in_new_results(&dir, &folder, files)?;
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
            // Refuses folders that are links: nothing is removed or written through a link.
            writer.folder.list_finished_names_if_present(name)?;
            atomic::remove_unfinished_files(&folder).map_err(with_path(&folder))?;
        }
        atomic::remove_unfinished_files(&writer.dir).map_err(with_path(&writer.dir))?;
        writer.there = writer.finished_run_indices()?;
        if !has_results || mode == Mode::Replace {
            writer.copy_missing_or_changed_files(files)?;
            writer.write_document(false)?;
        } else if grown {
            // The added repeats are missing from the old tables, so the document is first marked incomplete.
            writer.write_document(false)?;
            writer.copy_missing_or_changed_files(files)?;
        }
        Ok(writer)
    }

    /// Copies the study's files that are missing from the directory or have changed. A new directory gets its document
    /// last: from then on the directory belongs to this study.
    fn copy_missing_or_changed_files(
        &self,
        files: &[(String, Vec<u8>)],
    ) -> Result<(), ResultsError> {
        for (name, content) in files {
            let path = self.dir.join(name);
            if self
                .folder
                .read_if_present(name)?
                .is_some_and(|there| there == *content)
            {
                continue;
            }
            atomic::write_atomically(&path, |out| out.write_all(content))
                .map_err(with_path(&path))?;
        }
        Ok(())
    }

    /// Indices of all runs whose files exist now, ascending.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn finished_run_indices(&self) -> Result<Vec<usize>, ResultsError> {
        self.folder.finished_run_indices()
    }

    /// Whether run `index` was finished before this writer began.
    ///
    /// # Errors
    /// The file holds another run than `key`, or no run: its writer numbers runs in another way, or somebody moved the
    /// file.
    pub fn was_finished_at_start(
        &self,
        index: usize,
        expected_key: &RunKey,
    ) -> Result<bool, ResultsError> {
        if self.there.binary_search(&index).is_err() {
            return Ok(false);
        }
        let found = self.folder.read_run_without_plan_check(index)?.1.key;
        if found == *expected_key {
            return Ok(true);
        }
        Err(ResultsError::Content {
            path: self.run_path(index),
            message: format!(
                "holds {found}, and the study has {expected_key} in its place; remove the file to run that anew, or write to \
                 another directory"
            ),
        })
    }

    /// Writes the file of a finished run; `index` is its number among the planned runs.
    ///
    /// # Errors
    /// A metric is no finite number; or the file system refused, for example because it is full.
    pub fn write_run(&self, index: usize, run: &RunRecord) -> Result<(), ResultsError> {
        write_run_into_begun_directory(&self.dir, index, run)
    }

    /// Writes a finished run from another directory of the same study, byte for byte.
    pub(crate) fn write_run_bytes(&self, index: usize, run: &[u8]) -> Result<(), ResultsError> {
        let path = self.run_path(index);
        atomic::write_atomically(&path, |out| out.write_all(run)).map_err(with_path(&path))
    }

    /// Makes the Parquet tables from all runs, and marks the results as complete.
    ///
    /// # Errors
    /// The file system refused, or a run's file was tampered with.
    pub fn write_tables_and_finish(self) -> Result<(), ResultsError> {
        // Workers that were killed leave unfinished files in the folder of runs.
        let folder = self.dir.join(RUNS);
        atomic::remove_unfinished_files(&folder).map_err(with_path(&folder))?;
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
        write_json_atomically(&self.dir.join(DOCUMENT), &document)
    }
}

/// Writes a finished run into a directory that another process began and will finish with a [`ResultWriter`]. Making a
/// run again writes the same bytes.
///
/// # Errors
/// As [`ResultWriter::write_run`].
pub fn write_run_into_begun_directory(
    dir: &Path,
    index: usize,
    run: &RunRecord,
) -> Result<(), ResultsError> {
    if let Some((metric, value)) = run.first_non_finite_metric() {
        return Err(ResultsError::NotFinite {
            key: run.key.clone(),
            metric: metric.to_owned(),
            value,
        });
    }
    write_json_atomically(&run_path(dir, index), run)
}

fn write_json_atomically(path: &Path, value: &impl Serialize) -> Result<(), ResultsError> {
    atomic::write_atomically(path, |out| {
        // JSON without indentation: run files are many and long, and read by programs only.
        if path.ends_with(DOCUMENT) {
            serde_json::to_writer_pretty(&mut *out, value)?;
        } else {
            serde_json::to_writer(&mut *out, value)?;
        }
        out.write_all(b"\n")
    })
    .map_err(with_path(path))
}

/// Checks that a directory holds results of the same study, perhaps with fewer repeats. Returns whether the study has
/// more repeats now, so that document and copies must be written anew.
fn refuse_other_study_else_has_more_repeats(
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
    if let Some(changed) = wanted.first_file_with_other_sha256(there) {
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
        let found = folder.read_file(name)?;
        if found == *content {
            continue;
        }
        if name != STUDY || !are_studies_equal_except_repeats(&found, content) {
            return Err(difference(match name.strip_prefix("governors/") {
                Some(_) => format!("the governor of your own in {name}"),
                None => name.clone(),
            }));
        }
        grown = true;
    }
    match first_difference_besides_repeats(there, wanted) {
        Some(what) => Err(difference(what.to_owned())),
        None => Ok(grown),
    }
}

/// The first part in which two documents differ, the number of repeats aside; `None` if they agree.
fn first_difference_besides_repeats(there: &Document, wanted: &Document) -> Option<&'static str> {
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
    // Simulated runs have one seed per repeat, so more repeats add seeds.
    let seeds_go_on = wanted.seeds.starts_with(&there.seeds);
    (!seeds_go_on || *there != as_there).then_some(DOCUMENT)
}

/// Whether two study texts are equal apart from the line that sets `repeats`.
fn are_studies_equal_except_repeats(one: &[u8], other: &[u8]) -> bool {
    let one = study_lines_without_repeats(one);
    one.is_some() && one == study_lines_without_repeats(other)
}

/// The lines of a study's text without the line that sets `repeats`; `None` if the text is no UTF-8.
fn study_lines_without_repeats(study: &[u8]) -> Option<Vec<&str>> {
    let lines = std::str::from_utf8(study).ok()?.lines();
    let kept = lines.filter(|line| {
        let key = line.split('=').next().unwrap_or_default().trim();
        key.trim_matches(['"', '\'']) != "repeats"
    });
    Some(kept.collect())
}

/// Refuses a directory without a document, unless it is empty or holds only files that a kill left before this study's
/// document was written. Other files belong to somebody: writing would replace or adopt them.
fn refuse_foreign_files_in_new_results(
    dir: &Path,
    folder: &ResultFolder,
    files: &[(String, Vec<u8>)],
) -> Result<(), ResultsError> {
    let exists = |message: String| ResultsError::Exists {
        path: dir.to_owned(),
        message,
    };
    for name in folder.list_finished_names_if_present("")? {
        let path = dir.join(&name);
        if [RUNS, WORKLOADS, MACHINES, GOVERNORS].contains(&name.as_str()) && path.is_dir() {
            continue;
        }
        match files.iter().find(|(own, _)| *own == name) {
            Some((_, content)) if folder.read_file(&name).is_ok_and(|found| found == *content) => {}
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
    if let Some(name) = folder.list_finished_names_if_present(RUNS)?.first() {
        return Err(exists(format!(
            "holds {RUNS}/{name} and no {DOCUMENT} that says what it is a run of; name another directory, or remove \
             {RUNS}/"
        )));
    }
    for name in folder.list_workload_machine_governor_copies()? {
        let own = files.iter().find(|(own, _)| *own == name);
        let found = folder.read_file(&name);
        if own.is_none_or(|(_, content)| found.is_ok_and(|found| found != *content)) {
            return Err(exists(format!(
                "holds no results, and {name} is not that of this study and would be lost; name another directory"
            )));
        }
    }
    Ok(())
}

/// Removes runs, tables and superfluous copies of results that are to be replaced. The old document stays until the new
/// document takes its place, so that runs never lie in a directory without a document.
fn remove_old_results_except_document(
    dir: &Path,
    folder: &ResultFolder,
    files: &[(String, Vec<u8>)],
) -> Result<(), ResultsError> {
    match ResultReader::open(dir) {
        // The old tables no longer belong to the runs, so they are removed next.
        Ok(there) => write_json_atomically(
            &dir.join(DOCUMENT),
            &Document {
                complete: false,
                ..there.document().clone()
            },
        )?,
        Err(ResultsError::Version { .. }) => {}
        // A file of unknown origin is in the way.
        Err(error) => return Err(error),
    }
    for name in TABLES {
        remove_if_present(&dir.join(name), |path| fs::remove_file(path))?;
    }
    remove_if_present(&dir.join(RUNS), |path| fs::remove_dir_all(path))?;
    for name in folder
        .list_workload_machine_governor_copies()?
        .into_iter()
        .chain([MACHINE.to_owned()])
    {
        if !files.iter().any(|(own, _)| *own == name) {
            remove_if_present(&dir.join(name), |path| fs::remove_file(path))?;
        }
    }
    Ok(())
}

/// Removes a file or folder by the function `by`; a missing path is no error.
fn remove_if_present(
    path: &Path,
    remove: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), ResultsError> {
    match remove(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(with_path(path)(e)),
        _ => Ok(()),
    }
}
