//! Errors of recorded data.

/// Why recorded data cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct RecordError {
    /// Name of the file with recorded data.
    pub file: &'static str,
    /// Number of the line, from 1; 0 if the parser did not tell.
    pub line: u64,
    /// What is wrong in the row.
    pub what: String,
}
