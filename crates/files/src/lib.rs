//! Opens files from strangers: every file that a user names, or that lies in a foreign directory.
//!
//! Only regular files are opened: a FIFO would block for ever, and opening a device can do something. Only so many bytes are
//! read as the caller allows. They are counted as they come, since files grow and special ones have no length.
//!
//! - [`open`], [`read`] and [`read_text`]: a file that the user names; links are followed.
//! - [`Tree`]: a directory that confines every path.
//! - [`open_in`]: a file in a folder that is held open.
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

use regular::{open_regular, utf8_text};

/// Opens a regular file for reading.
///
/// # Errors
/// The system's; `InvalidInput` for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_regular(
        |flags| Ok(openat(CWD, path, flags, Mode::empty())?),
        OFlags::RDONLY,
    )
}

/// Opens a regular file in an open folder; links are refused.
///
/// # Errors
/// As [`open`].
pub fn open_in(folder: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    open_regular(
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
/// As [`open`]; `FileTooLarge` for a longer one.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_up_to(open(path)?, limit)
}

/// Reads a regular UTF-8 file of at most `limit` bytes.
///
/// # Errors
/// As [`read`]; `InvalidData` for what is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    utf8_text(read(path, limit)?)
}
