//! Opens files from strangers: every file that a user names, or that lies in a foreign directory.
//!
//! Only regular files are opened: a FIFO would block for ever, and opening a device can do something. Only so many bytes are
//! read as the caller allows. They are counted as they come, since files grow and special ones have no length.
//!
//! - [`open_regular_file`], [`read_file_up_to`] and [`read_text_up_to`]: a file that the user names; links are followed.
//! - [`Tree`]: a directory that confines every path.
//! - [`open_regular_in_folder`]: a file in a folder that is held open.
//! - [`read_up_to`]: anything else that can be read, such as standard input.

mod regular;
mod resolve;
mod tree;

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags, openat};

pub use regular::read_up_to;
pub use resolve::Links;
pub use tree::Tree;

use regular::{open_only_if_regular, require_utf8};

/// Opens a regular file for reading.
///
/// # Errors
/// The system's; `InvalidInput` for anything but a regular file.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    open_only_if_regular(
        |flags| Ok(openat(CWD, path, flags, Mode::empty())?),
        OFlags::RDONLY,
    )
}

/// Opens a regular file in an open folder; links are refused.
///
/// # Errors
/// As [`open_regular_file`].
pub fn open_regular_in_folder(folder: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    open_only_if_regular(
        |flags| {
            let flags = flags | OFlags::NOFOLLOW;
            Ok(openat(&folder, name, flags, Mode::empty())?)
        },
        flags,
    )
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular_file`]; `FileTooLarge` for a longer one.
pub fn read_file_up_to(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_up_to(open_regular_file(path)?, limit)
}

/// Reads a regular UTF-8 file of at most `limit` bytes.
///
/// # Errors
/// As [`read_file_up_to`]; `InvalidData` for what is not UTF-8.
pub fn read_text_up_to(path: &Path, limit: u64) -> io::Result<String> {
    require_utf8(read_file_up_to(path, limit)?)
}
