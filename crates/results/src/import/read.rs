//! Reading the files of other tools.

use std::path::{Path, PathBuf};

use wakepath_files::{Links, Tree};

use crate::ResultsError;

/// Largest file that is read.
pub(super) const MAX_BYTES: u64 = 256 << 20;

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultImportError {
    /// A result directory.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The file system refuses.
    #[error("{}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not what it should be.
    #[error("{}: {message}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

pub(super) fn content(path: &Path, message: impl Into<String>) -> ResultImportError {
    ResultImportError::Content {
        path: path.to_owned(),
        message: message.into(),
    }
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, ResultImportError> {
    let error = |source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    };
    wakepath_files::read(path, MAX_BYTES).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => error(std::io::Error::new(
            e.kind(),
            "no such result; `wakepath study run` leaves one, and files of fio and hyperfine are taken, too",
        )),
        _ => error(e),
    })
}

/// A file that was found in a folder from somewhere else: a link in it is refused.
pub(super) fn read_inside(folder: &Path, path: &Path) -> Result<Vec<u8>, ResultImportError> {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let read = Tree::open(folder, Links::Refused).and_then(|tree| tree.read(inside, MAX_BYTES));
    read.map_err(|source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    })
}
