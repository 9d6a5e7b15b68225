//! Reading files named on the command line.

use std::io;
use std::path::Path;

use anyhow::Context;

/// Reads the whole file `path`; `-` is standard input. More than `limit` bytes are an error, so that a wrong path such
/// as a device cannot fill the memory.
pub(crate) fn read_file_or_stdin(path: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    let read = if means_standard_input(Path::new(path)) {
        wakepath_files::read_up_to(io::stdin().lock(), limit)
    } else {
        wakepath_files::read_file_up_to(Path::new(path), limit)
    };
    read.with_context(|| describe_file_or_stdin(path).to_owned())
}

/// Whether a path means standard input, which may be a pipe.
pub(crate) fn means_standard_input(path: &Path) -> bool {
    ["-", "/dev/stdin"].map(Path::new).contains(&path)
}

/// The path for a message: `standard input` in place of `-`.
pub(crate) fn describe_file_or_stdin(path: &str) -> &str {
    if means_standard_input(Path::new(path)) {
        "standard input"
    } else {
        path
    }
}
