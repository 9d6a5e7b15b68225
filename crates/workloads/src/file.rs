//! Reading a workload file into memory, with a bound on its length.

use std::io::ErrorKind;
use std::path::Path;

use wakepath_units::pasted::decode_text_strictly;

/// Why a workload file could not be read as text.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// Line with the problem, counted from 1; `None` if the problem is not in a line.
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl Unreadable {
    fn for_whole_file(message: String) -> Self {
        Self {
            line: None,
            message,
        }
    }
}

/// Reads the file at `path` as UTF-8. A file longer than `limit` bytes is refused.
pub(crate) fn read_bounded_text(path: &Path, limit: usize) -> Result<String, Unreadable> {
    let file = wakepath_files::open_regular_file(path)
        .map_err(|e| Unreadable::for_whole_file(format!("cannot open: {e}")))?;
    let bytes = wakepath_files::read_up_to(file, limit as u64).map_err(|e| match e.kind() {
        ErrorKind::FileTooLarge => Unreadable::for_whole_file(too_large_message(limit)),
        _ => Unreadable::for_whole_file(format!("cannot read: {e}")),
    })?;
    decode_text_strictly(bytes).map_err(|e| {
        let valid = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        Unreadable {
            line: Some(valid.split(|&b| b == b'\n').count()),
            message: "is neither UTF-8 nor UTF-16 text".to_owned(),
        }
    })
}

/// Message about a file that is longer than `limit` bytes.
pub(crate) fn too_large_message(limit: usize) -> String {
    format!("is larger than {limit} bytes, which no such file needs to be")
}
