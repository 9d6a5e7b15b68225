//! Reads job files.

use std::path::Path;

use super::FioJobFile;
use super::error::FioError;
use super::lines::MAX_FILE_BYTES;
use super::sections::read_job_file_sections;
use super::surroundings::FioSurroundings;
use crate::file;

/// Parses a fio job file. `origin` is the file's name for messages.
///
/// # Errors
/// All problems of the file, each with its line: an unknown section or option, a value out of range, a job without an
/// end, no job at all, more than [`MAX_FILE_BYTES`] or [`MAX_JOBS`](super::MAX_JOBS). An option that fio knows and the
/// simulator has no model for is no error, but listed in [`FioJobFile::unmodelled`]; a file with errors lists such
/// options as well.
pub fn parse(text: &str, origin: &str) -> Result<FioJobFile, FioError> {
    parse_in_surroundings(text, origin, &FioSurroundings::default())
}

/// Parses a fio job file whose variables and figures of a machine have the values of `surroundings`; see [`parse`].
///
/// # Errors
/// As [`parse`], and where a value with a figure of the machine cannot be computed.
pub fn parse_in_surroundings(
    text: &str,
    origin: &str,
    surroundings: &FioSurroundings,
) -> Result<FioJobFile, FioError> {
    if text.len() > MAX_FILE_BYTES {
        let message = file::too_large_message(MAX_FILE_BYTES);
        return Err(FioError::for_one_problem(origin, None, message));
    }
    read_job_file_sections(text, origin, surroundings, &[])
}

/// Reads and parses the fio job file at `path`; see [`parse`].
///
/// # Errors
/// As [`parse`], and when the file cannot be read or is not UTF-8.
pub fn load(path: impl AsRef<Path>) -> Result<FioJobFile, FioError> {
    let path = path.as_ref();
    let origin = path.display().to_string();
    let text = file::read_bounded_text(path, MAX_FILE_BYTES)
        .map_err(|e| FioError::for_one_problem(&origin, e.line, e.message))?;
    parse(&text, &origin)
}
