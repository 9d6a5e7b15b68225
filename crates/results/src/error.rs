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
    /// The file system refuses.
    #[error("{}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No results in the directory.
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
        /// Version in the file.
        found: u64,
        /// Version of the writer.
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
    /// Something is in the way.
    #[error("{}: {message}", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
        /// Advice.
        message: String,
    },
    /// Another process is writing.
    #[error("{}: another wakepath is writing to it", .0.display())]
    Locked(PathBuf),
    /// `--resume` with another study.
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
    /// `--resume` after a named file without a copy has changed.
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
    /// An infinite or undefined number.
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

/// Adds the path to a failure of the file system.
pub(crate) fn with_path<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> ResultsError {
    move |source| ResultsError::Io {
        path: path.to_owned(),
        source: source.into(),
    }
}
