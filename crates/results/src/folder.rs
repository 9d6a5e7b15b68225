//! The files of a result directory, which may come from somebody else: regular ones only, none outside of it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use wakepath_files::{Links, Tree};

use crate::atomic;
use crate::document::Document;
use crate::error::{ResultsError, at};
use crate::layout::{
    DOCUMENT, GOVERNORS, MACHINES, RUNS, WORKLOADS, run_index, run_name, run_path,
};
use crate::plan::RunPlan;
use crate::run_record::RunRecord;

/// No document, run or copy is longer.
const MAX_BYTES: u64 = 256 << 20;

/// A result directory, held open for reading. No path and no link leads out of it.
#[derive(Debug)]
pub(crate) struct ResultFolder {
    path: PathBuf,
    tree: Tree,
}

impl ResultFolder {
    pub(crate) fn open(path: &Path) -> Result<Self, ResultsError> {
        Ok(Self {
            path: path.to_owned(),
            tree: Tree::open(path, Links::Refused).map_err(at(path))?,
        })
    }

    /// The bytes of a file.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, ResultsError> {
        let read = self.tree.read(Path::new(name), MAX_BYTES);
        read.map_err(at(&self.path.join(name)))
    }

    /// The bytes of a file; `None` if it is not there.
    pub(crate) fn read_if_there(&self, name: &str) -> Result<Option<Vec<u8>>, ResultsError> {
        match self.tree.read(Path::new(name), MAX_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => Ok(Some(read.map_err(at(&self.path.join(name)))?)),
        }
    }

    /// A file, to be read in parts.
    pub(crate) fn file(&self, name: &str) -> Result<File, ResultsError> {
        let opened = self.tree.open_file(Path::new(name), OFlags::RDONLY);
        opened.map_err(at(&self.path.join(name)))
    }

    /// Whether it has a file or folder of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let seen = OFlags::PATH | OFlags::NOFOLLOW;
        self.tree.open_any(Path::new(name), seen).is_ok()
    }

    /// The names in a folder in their order, but those of unfinished files; none if it is not there.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, ResultsError> {
        let names = match self.tree.names(Path::new(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(at(&self.path.join(folder)))?,
        };
        let names = names.iter().map(|name| name.to_string_lossy().into_owned());
        Ok(names
            .filter(|name| !name.starts_with(atomic::UNFINISHED))
            .collect())
    }

    /// The copies of workload, machine and governor files, by their paths in the directory.
    pub(crate) fn copies(&self) -> Result<Vec<String>, ResultsError> {
        let mut all = Vec::new();
        for folder in [WORKLOADS, MACHINES, GOVERNORS] {
            let inside = self.names(folder)?.into_iter();
            all.extend(inside.map(|name| format!("{folder}/{name}")));
        }
        Ok(all)
    }

    /// The indices of the finished runs, in their order. The folder is read once: to ask for each of millions of files
    /// would take minutes on a network.
    pub(crate) fn run_indices(&self) -> Result<Vec<usize>, ResultsError> {
        let names = self.names(RUNS)?;
        let mut indices: Vec<usize> = names.iter().filter_map(|name| run_index(name)).collect();
        indices.sort_unstable();
        Ok(indices)
    }

    /// The bytes of the run of this index, and the run, which is the one that the document plans there.
    pub(crate) fn run(
        &self,
        index: usize,
        plan: &RunPlan,
    ) -> Result<(Vec<u8>, RunRecord), ResultsError> {
        let (bytes, run) = self.any_run(index)?;
        match plan.check(index, &run) {
            Ok(()) => Ok((bytes, run)),
            Err(message) => Err(ResultsError::Content {
                path: self.run_path(index),
                message: format!("{message}; {AGAIN}"),
            }),
        }
    }

    /// The bytes of the run of this index, and the run, whatever it is one of.
    pub(crate) fn any_run(&self, index: usize) -> Result<(Vec<u8>, RunRecord), ResultsError> {
        let damaged = |why: String| ResultsError::Content {
            path: self.run_path(index),
            message: format!("{why}; {AGAIN}"),
        };
        let name = format!("{RUNS}/{}", run_name(index));
        let read = self.tree.read(Path::new(&name), MAX_BYTES);
        let bytes = read.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::FileTooLarge => damaged(error.to_string()),
            _ => at::<io::Error>(&self.run_path(index))(error),
        })?;
        match serde_json::from_slice(&bytes) {
            Ok(run) => Ok((bytes, run)),
            Err(error) => Err(damaged(format!("no whole run: {error}"))),
        }
    }

    fn run_path(&self, index: usize) -> PathBuf {
        run_path(&self.path, index)
    }

    /// `result.json`, if there is one.
    pub(crate) fn document(&self) -> Result<Option<Vec<u8>>, ResultsError> {
        self.read_if_there(DOCUMENT)
    }
}

/// What to do about a run that is none.
const AGAIN: &str = "remove the file, and `wakepath study run --resume` makes this run again";

/// Whether a document is of a version that can be read, and says nothing impossible.
pub(crate) fn check(document: &Document, path: &Path) -> Result<(), ResultsError> {
    document.check().map_err(|message| ResultsError::Content {
        path: path.join(DOCUMENT),
        message,
    })
}
