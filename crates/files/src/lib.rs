//! Files from strangers. Every file that a user names, or that lies in a foreign directory, is opened here.
//!
//! Only regular files are opened: a FIFO would block for ever, and opening a device can do something. Only so many bytes are
//! read as the caller allows. They are counted as they come, since files grow and special ones have no length.
//!
//! - [`open`], [`read`] and [`read_text`]: a file that the user names; links are followed.
//! - [`Tree`]: a directory that confines every path.
//! - [`open_in`]: a file in a folder that is held open.
//! - [`read_up_to`]: anything else that can be read, such as standard input.

mod resolve;
mod tree;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

pub use tree::{Links, Tree};

/// Opens a regular file for reading.
///
/// # Errors
/// The system's; `InvalidInput` for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    regular(
        |flags| Ok(openat(CWD, path, flags, Mode::empty())?),
        OFlags::RDONLY,
    )
}

/// Opens a regular file in an open folder; links are refused.
///
/// # Errors
/// As [`open`].
pub fn open_in(folder: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    regular(
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
    text(read(path, limit)?)
}

/// Reads all bytes of a source, at most `limit`.
///
/// # Errors
/// The source's; `FileTooLarge` if it has more.
pub fn read_up_to(source: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("more than {limit} bytes, which no such file has");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8 text"))
}

/// Opens a regular file. `opens` is called twice: first for a handle that touches nothing, then with `flags`.
pub(crate) fn regular(
    opens: impl Fn(OFlags) -> io::Result<rustix::fd::OwnedFd>,
    flags: OFlags,
) -> io::Result<File> {
    let untouched = flags & OFlags::NOFOLLOW;
    check_regular(&opens(untouched | OFlags::PATH | OFlags::CLOEXEC)?)?;
    // A FIFO may have taken the file's place between the two calls.
    let opened = opens(flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC)?;
    check_regular(&opened)?;
    Ok(opened.into())
}

/// Refuses everything but regular files.
fn check_regular(opened: &rustix::fd::OwnedFd) -> io::Result<()> {
    let kind = match FileType::from_raw_mode(fstat(opened)?.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO (named pipe)",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    };
    let message = format!("is {kind}; only regular files are read here");
    Err(io::Error::new(ErrorKind::InvalidInput, message))
}
