//! Why a recording cannot be read or written, and the file names and keys that readers and writers share.

use std::path::{Path, PathBuf};

/// Key of the machine's description in Parquet's metadata.
pub(super) const METADATA_KEY: &str = "wakepath.recording";

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A recording's file could not be opened, read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// A recording's file exists already and must be kept.
    #[error("{} exists already; give another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// A recording is no Parquet file, or a damaged one.
    #[error("{}: {cause}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The Parquet library's message.
        cause: parquet::errors::ParquetError,
    },
    /// A Parquet file, but not a recording this version can read.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with the recording, and what was expected.
        problem: String,
    },
}

impl RecordingError {
    pub(super) fn io_error_with_path(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io {
            path: path.clone(),
            cause,
        }
    }

    /// The error for a file that is no recording for this version.
    pub(super) fn format_error(path: &Path, problem: String) -> Self {
        Self::Format {
            path: path.to_owned(),
            problem,
        }
    }

    pub(super) fn parquet_error_with_path(
        path: &Path,
    ) -> impl Fn(parquet::errors::ParquetError) -> Self {
        let path = path.to_owned();
        move |cause| Self::Parquet {
            path: path.clone(),
            cause,
        }
    }
}

/// The path of the file beside an unfinished recording that has the table of contents so far.
pub fn tail_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tail");
    PathBuf::from(name)
}
