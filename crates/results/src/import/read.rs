//! Reading other tools' files.

use std::path::{Path, PathBuf};

use wakepath_files::{Links, Tree};

use crate::ResultsError;

/// Largest accepted file, in bytes.
pub(super) const MAX_BYTES: u64 = 256 << 20;

/// Why another tool's results cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ResultImportError {
    /// A result directory.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A file of another tool could not be read: the file system refused.
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

pub(crate) fn content_error_at(path: &Path, message: impl Into<String>) -> ResultImportError {
    ResultImportError::Content {
        path: path.to_owned(),
        message: message.into(),
    }
}

pub(super) fn read_tool_file(path: &Path) -> Result<Vec<u8>, ResultImportError> {
    let error = read_error_at(path);
    wakepath_files::read_file_up_to(path, MAX_BYTES).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => error(std::io::Error::new(
            e.kind(),
            "no such result; `wakepath study run` leaves one, and files of fio and hyperfine are taken, too",
        )),
        _ => error(e),
    })
}

/// Makes a function that turns a failure to read into an error which names `path`.
pub(super) fn read_error_at(path: &Path) -> impl Fn(std::io::Error) -> ResultImportError {
    move |source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    }
}

/// Reads a regular file in a folder that came from somewhere else: links are refused.
pub(super) fn read_regular_file_in(
    folder: &Path,
    path: &Path,
) -> Result<Vec<u8>, ResultImportError> {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let read = Tree::open_folder(folder, Links::Refused)
        .and_then(|tree| tree.read_file_up_to(inside, MAX_BYTES));
    read.map_err(read_error_at(path))
}
