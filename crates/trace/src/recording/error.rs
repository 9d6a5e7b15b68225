//! Why a recording cannot be read or written, and names that readers and writers share.

use std::path::{Path, PathBuf};

/// Key of the machine's description in Parquet's metadata.
pub(super) const METADATA_KEY: &str = "wakepath.recording";

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be opened, read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The file exists already.
    #[error("{} exists already; give another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// Not a Parquet file, or a damaged file.
    #[error("{}: {cause}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The Parquet library's error.
        cause: parquet::errors::ParquetError,
    },
    /// A Parquet file, but not a recording this version can read.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem, and the expected content.
        problem: String,
    },
}

impl RecordingError {
    pub(super) fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io {
            path: path.clone(),
            cause,
        }
    }

    /// A file that is no recording for this version.
    pub(super) fn format(path: &Path, problem: String) -> Self {
        Self::Format {
            path: path.to_owned(),
            problem,
        }
    }

    pub(super) fn parquet(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        let path = path.to_owned();
        move |cause| Self::Parquet {
            path: path.clone(),
            cause,
        }
    }
}

/// The file beside an unfinished recording with the table of contents so far.
pub fn tail_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tail");
    PathBuf::from(name)
}
