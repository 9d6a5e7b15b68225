//! Reading files named on the command line.

use std::io;
use std::path::Path;

use anyhow::Context;

/// Reads all of `path`; `-` is standard input. More than `limit` bytes are an error, so that a
/// wrong path such as a device cannot fill the memory.
pub(crate) fn read(path: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    let read = if is_stdin(Path::new(path)) {
        wakepath_files::read_up_to(io::stdin().lock(), limit)
    } else {
        wakepath_files::read(Path::new(path), limit)
    };
    read.with_context(|| name(path).to_owned())
}

/// Whether a path means standard input, which may be a pipe.
pub(crate) fn is_stdin(path: &Path) -> bool {
    ["-", "/dev/stdin"].map(Path::new).contains(&path)
}

/// The file's name in a message.
pub(crate) fn name(path: &str) -> &str {
    if is_stdin(Path::new(path)) {
        "standard input"
    } else {
        path
    }
}
