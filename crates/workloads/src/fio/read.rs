//! Reads job files.

use std::path::Path;

use super::FioJobFile;
use super::error::FioError;
use super::lines::MAX_FILE_BYTES;
use super::sections::read_sections;
use crate::file;

/// Reads a job file. `origin` is its name for messages.
///
/// # Errors
/// All problems of the file, each with its line: a section or an option that is not understood, a value out of
/// range, a job without an end, no job at all, more than [`MAX_FILE_BYTES`] or more than [`MAX_JOBS`](super::MAX_JOBS). Options that
/// fio has and the simulator has no model of are no errors, but [`FioJobFile::unmodelled`]; a file with
/// errors lists them as well.
pub fn parse(text: &str, origin: &str) -> Result<FioJobFile, FioError> {
    if text.len() > MAX_FILE_BYTES {
        let message = file::too_large(MAX_FILE_BYTES);
        return Err(FioError::of_file(origin, None, message));
    }
    read_sections(text, origin)
}

/// Reads the job file at `path`; see [`parse`].
///
/// # Errors
/// As [`parse`], and when the file cannot be read or is not UTF-8.
pub fn load(path: impl AsRef<Path>) -> Result<FioJobFile, FioError> {
    let path = path.as_ref();
    let origin = path.display().to_string();
    let text = file::read(path, MAX_FILE_BYTES)
        .map_err(|e| FioError::of_file(&origin, e.line, e.message))?;
    parse(&text, &origin)
}
