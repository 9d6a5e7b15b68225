//! Reading a result directory that may come from a stranger: only regular files, and none outside of the directory.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use wakepath_files::{Links, Tree};

use crate::atomic;
use crate::document::Document;
use crate::error::{ResultsError, with_path};
use crate::layout::{
    DOCUMENT, GOVERNORS, MACHINES, RUNS, WORKLOADS, run_file_name, run_index_from_file_name,
    run_path,
};
use crate::plan::RunPlan;
use crate::run_record::RunRecord;

/// Largest accepted size of a document, run or copy, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// An open result directory. Paths and links that lead outside are refused.
#[derive(Debug)]
pub(crate) struct ResultFolder {
    path: PathBuf,
    tree: Tree,
}

impl ResultFolder {
    pub(crate) fn open(path: &Path) -> Result<Self, ResultsError> {
        Ok(Self {
            path: path.to_owned(),
            tree: Tree::open_folder(path, Links::Refused).map_err(with_path(path))?,
        })
    }

    /// A file's bytes.
    pub(crate) fn read_file(&self, name: &str) -> Result<Vec<u8>, ResultsError> {
        let read = self.tree.read_file_up_to(Path::new(name), MAX_BYTES);
        read.map_err(with_path(&self.path.join(name)))
    }

    /// Reads a file's bytes; `None` if the file does not exist.
    pub(crate) fn read_if_present(&self, name: &str) -> Result<Option<Vec<u8>>, ResultsError> {
        match self.tree.read_file_up_to(Path::new(name), MAX_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => Ok(Some(read.map_err(with_path(&self.path.join(name)))?)),
        }
    }

    /// Reads several files; returns each with its name.
    pub(crate) fn read_named_files(
        &self,
        names: Vec<String>,
    ) -> Result<Vec<(String, Vec<u8>)>, ResultsError> {
        let files = names.into_iter().map(|name| {
            let content = self.read_file(&name)?;
            Ok((name, content))
        });
        files.collect()
    }

    /// Opens a file to be read in parts.
    pub(crate) fn open_file(&self, name: &str) -> Result<File, ResultsError> {
        let opened = self.tree.open_file(Path::new(name), OFlags::RDONLY);
        opened.map_err(with_path(&self.path.join(name)))
    }

    /// Whether a file or folder with the name exists in the result directory.
    pub(crate) fn has_file_or_folder(&self, name: &str) -> bool {
        let seen = OFlags::PATH | OFlags::NOFOLLOW;
        self.tree.open_file_or_folder(Path::new(name), seen).is_ok()
    }

    /// Lists the names in a folder, sorted, without unfinished files; empty if the folder does not exist.
    pub(crate) fn list_finished_names_if_present(
        &self,
        folder: &str,
    ) -> Result<Vec<String>, ResultsError> {
        let names = match self.tree.list_names(Path::new(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(with_path(&self.path.join(folder)))?,
        };
        let names = names.iter().map(|name| name.to_string_lossy().into_owned());
        Ok(names
            .filter(|name| !name.starts_with(atomic::UNFINISHED))
            .collect())
    }

    /// Paths of workload, machine and governor copies in the result directory.
    pub(crate) fn list_workload_machine_governor_copies(
        &self,
    ) -> Result<Vec<String>, ResultsError> {
        let mut all = Vec::new();
        for folder in [WORKLOADS, MACHINES, GOVERNORS] {
            let inside = self.list_finished_names_if_present(folder)?.into_iter();
            all.extend(inside.map(|name| format!("{folder}/{name}")));
        }
        Ok(all)
    }

    /// Indices of finished runs, ascending. The folder is listed once: asking for millions of files one by one would
    /// take minutes on a network.
    pub(crate) fn finished_run_indices(&self) -> Result<Vec<usize>, ResultsError> {
        let names = self.list_finished_names_if_present(RUNS)?;
        let mut indices: Vec<usize> = names
            .iter()
            .filter_map(|name| run_index_from_file_name(name))
            .collect();
        indices.sort_unstable();
        Ok(indices)
    }

    /// Reads the run with an index, as bytes and parsed. Refused unless the document plans this run under this index.
    pub(crate) fn read_run_checked_by_plan(
        &self,
        index: usize,
        plan: &RunPlan,
    ) -> Result<(Vec<u8>, RunRecord), ResultsError> {
        let (bytes, run) = self.read_run_without_plan_check(index)?;
        match plan.check_run_planned_and_possible(index, &run) {
            Ok(()) => Ok((bytes, run)),
            Err(message) => Err(ResultsError::Content {
                path: self.run_path(index),
                message: format!("{message}; {AGAIN}"),
            }),
        }
    }

    /// Reads the run with an index, as bytes and parsed, whether planned or not.
    pub(crate) fn read_run_without_plan_check(
        &self,
        index: usize,
    ) -> Result<(Vec<u8>, RunRecord), ResultsError> {
        let damaged = |why: String| ResultsError::Content {
            path: self.run_path(index),
            message: format!("{why}; {AGAIN}"),
        };
        let name = format!("{RUNS}/{}", run_file_name(index));
        let read = self.tree.read_file_up_to(Path::new(&name), MAX_BYTES);
        let bytes = read.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::FileTooLarge => damaged(error.to_string()),
            _ => with_path::<io::Error>(&self.run_path(index))(error),
        })?;
        match serde_json::from_slice(&bytes) {
            Ok(run) => Ok((bytes, run)),
            Err(error) => Err(damaged(format!("no whole run: {error}"))),
        }
    }

    fn run_path(&self, index: usize) -> PathBuf {
        run_path(&self.path, index)
    }

    /// Reads the bytes of `result.json`; `None` if there is no such file.
    pub(crate) fn read_document_bytes_if_present(&self) -> Result<Option<Vec<u8>>, ResultsError> {
        self.read_if_present(DOCUMENT)
    }
}

/// What an error about a damaged run tells the user to do.
const AGAIN: &str = "remove the file, and `wakepath study run --resume` makes this run again";

/// Checks a document's values; an error names the document's `path`.
pub(crate) fn check_document_values(document: &Document, path: &Path) -> Result<(), ResultsError> {
    document
        .check_values()
        .map_err(|message| ResultsError::Content {
            path: path.join(DOCUMENT),
            message,
        })
}
