//! Reading other tools' files.

use std::path::{Path, PathBuf};

use wakepath_files::{Links, Tree};

use crate::ResultsError;

/// Largest file in bytes.
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
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Unexpected content.
    #[error("{}: {message}", path.display())]
    Content {
        /// File.
        path: PathBuf,
        /// The problem.
        message: String,
    },
}

pub(crate) fn read_content(path: &Path, message: impl Into<String>) -> ResultImportError {
    ResultImportError::Content {
        path: path.to_owned(),
        message: message.into(),
    }
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, ResultImportError> {
    let error = unreadable_file(path);
    wakepath_files::read_file_up_to(path, MAX_BYTES).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => error(std::io::Error::new(
            e.kind(),
            "no such result; `wakepath study run` leaves one, and files of fio and hyperfine are taken, too",
        )),
        _ => error(e),
    })
}

/// Makes a failure of the file system an error with the path.
pub(super) fn unreadable_file(path: &Path) -> impl Fn(std::io::Error) -> ResultImportError {
    move |source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    }
}

/// A file in a folder from somewhere else: links are refused.
pub(super) fn read_inside(folder: &Path, path: &Path) -> Result<Vec<u8>, ResultImportError> {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let read = Tree::open_folder(folder, Links::Refused)
        .and_then(|tree| tree.read_file_up_to(inside, MAX_BYTES));
    read.map_err(unreadable_file(path))
}
