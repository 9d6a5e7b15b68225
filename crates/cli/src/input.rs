//! Reading files named on the command line.

use std::io;
use std::path::Path;

use anyhow::Context;

/// Reads all of `path`; `-` is standard input. More than `limit` bytes are an error, so that a
/// wrong path such as a device cannot fill the memory.
pub(crate) fn read_input(path: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    let read = if is_stdin(Path::new(path)) {
        wakepath_files::read_up_to(io::stdin().lock(), limit)
    } else {
        wakepath_files::read_file_up_to(Path::new(path), limit)
    };
    read.with_context(|| path_or_stdin(path).to_owned())
}

/// Whether a path means standard input, which may be a pipe.
pub(crate) fn is_stdin(path: &Path) -> bool {
    ["-", "/dev/stdin"].map(Path::new).contains(&path)
}

/// The path for a message; `standard input` for `-`.
pub(crate) fn path_or_stdin(path: &str) -> &str {
    if is_stdin(Path::new(path)) {
        "standard input"
    } else {
        path
    }
}
