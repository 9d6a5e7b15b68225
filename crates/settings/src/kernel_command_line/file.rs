//! Reads files of boot loaders.

use rustix::fs::OFlags;
use wakepath_system::Root;

use crate::trusted_file::{TrustedFileError, read_open_file_if_trusted};

/// Longest file of a boot loader that is edited, in bytes.
const MAX_BYTES: u64 = 1 << 18;

/// Reads a file of a boot loader; `None` if there is none.
///
/// # Errors
/// Why the file is not read, or not trusted.
pub(super) fn read_boot_loader_file(root: &Root, relative: &str) -> Result<Option<String>, String> {
    let file = match root.open_file(relative, OFlags::RDONLY | OFlags::NONBLOCK) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    match read_open_file_if_trusted(file, MAX_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(TrustedFileError::Read(error)) => Err(format!("cannot be read: {error}")),
        Err(TrustedFileError::Unsafe(why)) => Err(why.to_owned()),
    }
}
