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
        /// What the system said.
        cause: std::io::Error,
    },
    /// There is a file already.
    #[error("{} exists already; give another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// It is not a Parquet file, or a damaged one.
    #[error("{}: {cause}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        cause: parquet::errors::ParquetError,
    },
    /// It is a Parquet file, but no recording as this version writes them.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
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

    pub(super) fn parquet(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        let path = path.to_owned();
        move |cause| Self::Parquet {
            path: path.clone(),
            cause,
        }
    }
}

/// The file beside an unfinished recording that says how far it goes.
pub fn tail_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tail");
    PathBuf::from(name)
}
