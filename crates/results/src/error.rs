//! Why a result directory cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};

use crate::document::VERSION;
use crate::layout::DOCUMENT;
use crate::rows::RunKey;
use crate::tables::TableError;

/// Why a result directory cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file or folder of results could not be read or written: the file system refused.
    #[error("{}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory holds no results: there is no `result.json`.
    #[error("{}: no result directory: it has no {DOCUMENT}", .0.display())]
    NoResults(PathBuf),
    /// Unexpected content.
    #[error("{}: {message}", path.display())]
    Content {
        /// File.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// Another schema version.
    #[error(
        "{}: schema version {found}, and this wakepath reads version {VERSION}; read it with the wakepath that wrote \
         it ({writer}), or run the study again", path.display()
    )]
    Version {
        /// File.
        path: PathBuf,
        /// Schema version found in the file.
        found: u64,
        /// Version of the program that wrote the file.
        writer: String,
    },
    /// A table.
    #[error("{}", path.display())]
    Table {
        /// File.
        path: PathBuf,
        /// Why.
        source: TableError,
    },
    /// Results, or files of unknown origin, are where the new results should go.
    #[error("{}: {message}", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
        /// Advice.
        message: String,
    },
    /// Another process is writing to the result directory, and holds its lock.
    #[error("{}: another wakepath is writing to it", .0.display())]
    Locked(PathBuf),
    /// `--resume` was asked for, but the directory belongs to another study.
    #[error(
        "{}: these are results of another study ({what} differs); resume with the same study and wakepath, or write \
         to another directory", path.display()
    )]
    Different {
        /// The directory.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// `--resume` was asked for, but a named file without a copy has changed since.
    #[error(
        "{}: these are results of another content of {file} (SHA-256 {there}, and it now has {now}); put that content \
         back, or write to another directory", path.display()
    )]
    ChangedFile {
        /// The directory.
        path: PathBuf,
        /// The file.
        file: String,
        /// Old SHA-256.
        there: String,
        /// New SHA-256.
        now: String,
    },
    /// A metric is infinite or undefined, so the run is not written.
    #[error("{key}: {metric} is {value}, which is no result; nothing of this run is kept")]
    NotFinite {
        /// The run.
        key: RunKey,
        /// The metric.
        metric: String,
        /// The value.
        value: f64,
    },
}

/// Makes a function that turns failures of the file system into errors which name `path`.
pub(crate) fn with_path<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> ResultsError {
    move |source| ResultsError::Io {
        path: path.to_owned(),
        source: source.into(),
    }
}
