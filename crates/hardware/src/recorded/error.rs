//! Faults of recorded data.

/// Why recorded data cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct RecordError {
    /// Name of the data file.
    pub file: &'static str,
    /// Line, counted from 1; 0 if the parser did not tell.
    pub line: u64,
    /// The fault in the row.
    pub what: String,
}
