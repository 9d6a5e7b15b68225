//! Opening a trace's file.

use std::fs::File;
use std::path::Path;

use super::error::BlockTraceError;

/// Bytes that are read from a file at a time.
pub(super) const READ_BYTES: usize = 1 << 18;

/// Opens the regular file at `path`; `origin` is its name for messages.
pub(super) fn open_file(path: &Path, origin: &str) -> Result<File, BlockTraceError> {
    wakepath_files::open_regular_file(path)
        .map_err(|e| BlockTraceError::for_whole_trace(origin, format!("cannot open: {e}")))
}
