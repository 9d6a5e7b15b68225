//! Configuration files of processes that run as root.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wakepath_units::pasted::decode_strictly;

/// Why a file is not used.
#[derive(Debug)]
pub(crate) enum TrustedFileError {
    /// The file cannot be read.
    Read(io::Error),
    /// Somebody else could have written the file.
    Unsafe(&'static str),
}

impl From<io::Error> for TrustedFileError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Reads a file that only root or this user can write.
///
/// # Errors
/// The file cannot be read, is too long, or somebody else could have written it.
pub(crate) fn read(path: &Path, limit: u64) -> Result<String, TrustedFileError> {
    read_open(wakepath_files::open(path)?, limit)
}

/// As [`read`], from an open file.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_open(file: File, limit: u64) -> Result<String, TrustedFileError> {
    let about = file.metadata()?;
    if about.mode() & 0o002 != 0 {
        return Err(TrustedFileError::Unsafe("everybody may write it"));
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&about.uid()) {
        return Err(TrustedFileError::Unsafe("it belongs to another user"));
    }
    let bytes = wakepath_files::read_up_to(file, limit)?;
    decode_strictly(bytes).map_err(|error| TrustedFileError::Read(io::Error::other(error)))
}
