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
        message: String,
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
    /// `--resume` with another content of a file that the results name by its path.
    #[error(
        "{}: these are results of another content of {file} (SHA-256 {there}, and it now has {now}); put that content \
         back, or write to another directory", path.display()
    )]
    ChangedFile {
        /// The directory.
        path: PathBuf,
        /// The file.
        file: String,
        /// The SHA-256 of what it had.
        there: String,
        /// The SHA-256 of what it has.
        now: String,
    },
    /// A number that is none.
    #[error("{key}: {metric} is {value}, which is no result; nothing of this run is kept")]
    NotFinite {
        /// The run.
        key: RunKey,
        /// The metric.
        metric: String,
        /// Its value.
        value: f64,
    },
}

/// Makes a failure of the file system an error that names the path.
pub(crate) fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> ResultsError {
    move |source| ResultsError::Io {
        path: path.to_owned(),
        source: source.into(),
    }
}
