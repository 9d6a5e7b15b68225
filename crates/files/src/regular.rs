//! Opens regular files only, and reads a bounded number of bytes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

use rustix::fs::{FileType, OFlags, fstat};

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

/// The bytes as UTF-8 text; other bytes are an error.
pub(crate) fn require_utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8 text"))
}

/// Opens a regular file. `opens` is called twice: first for a handle that touches nothing, then with `flags`.
pub(crate) fn open_only_if_regular(
    opens: impl Fn(OFlags) -> io::Result<rustix::fd::OwnedFd>,
    flags: OFlags,
) -> io::Result<File> {
    let untouched = flags & OFlags::NOFOLLOW;
    check_is_regular(&opens(untouched | OFlags::PATH | OFlags::CLOEXEC)?)?;
    // A FIFO may have taken the file's place between the two calls of `opens`.
    let opened = opens(flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC)?;
    check_is_regular(&opened)?;
    Ok(opened.into())
}

/// Refuses an opened file that is no regular file.
fn check_is_regular(opened: &rustix::fd::OwnedFd) -> io::Result<()> {
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
