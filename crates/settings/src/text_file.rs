//! Text files of sysfs, and files with the answers of a captured drive.

use std::io::{self, Write};

use rustix::fs::OFlags;
use wakepath_system::Root;

/// Overwrites a text file of the machine as a shell's `echo` does. The file must exist.
///
/// # Errors
/// The system's.
pub(crate) fn overwrite_existing_file(root: &Root, relative: &str, value: &[u8]) -> io::Result<()> {
    root.open_file(relative, OFlags::WRONLY | OFlags::TRUNC)?
        .write_all(value)
}
