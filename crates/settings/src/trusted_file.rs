//! Reads configuration files for processes that run as root.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wakepath_units::pasted::decode_text_strictly;

/// Mode bits by which the group or everybody may write to a file.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Mode bit of sticky folders, whose files only their owners can replace.
const STICKY: u32 = 0o1000;

/// Why a configuration file is not used.
#[derive(Debug)]
pub(crate) enum TrustedFileError {
    /// The configuration file cannot be read.
    Read(io::Error),
    /// Somebody else than root or this user could have written the configuration file.
    Unsafe(&'static str),
}

impl From<io::Error> for TrustedFileError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Reads a file that only root or this user can write or replace.
///
/// # Errors
/// The file cannot be read, is too long, or somebody else could have written it.
pub(crate) fn read_trusted_text_file(path: &Path, limit: u64) -> Result<String, TrustedFileError> {
    let file = wakepath_files::open_regular_file(path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    check_folder_owner_and_mode(&folder.metadata()?)?;
    read_open_file_if_trusted(file, limit)
}

/// Checks that nobody but root or this user can replace the files of a folder.
///
/// # Errors
/// Somebody else can.
pub(crate) fn check_folder_owner_and_mode(about: &Metadata) -> Result<(), TrustedFileError> {
    // In a sticky folder, such as /tmp, only the owner of a file replaces it.
    if about.mode() & WRITABLE_BY_OTHERS != 0 && about.mode() & STICKY == 0 {
        return Err(TrustedFileError::Unsafe(
            "others may write its folder (chmod go-w ends that)",
        ));
    }
    if !is_trusted_owner(about) {
        return Err(TrustedFileError::Unsafe(
            "its folder belongs to another user",
        ));
    }
    Ok(())
}

fn is_trusted_owner(about: &Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&about.uid())
}

/// As `read_trusted_text_file`, from an open file in a folder that the caller has checked.
///
/// # Errors
/// As [`read_trusted_text_file`].
pub(crate) fn read_open_file_if_trusted(
    file: File,
    limit: u64,
) -> Result<String, TrustedFileError> {
    let about = file.metadata()?;
    if about.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(TrustedFileError::Unsafe(
            "others may write it (chmod go-w ends that)",
        ));
    }
    if !is_trusted_owner(&about) {
        return Err(TrustedFileError::Unsafe("it belongs to another user"));
    }
    let bytes = wakepath_files::read_up_to(file, limit)?;
    decode_text_strictly(bytes).map_err(|_| {
        let error = io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8 text");
        TrustedFileError::Read(error)
    })
}
