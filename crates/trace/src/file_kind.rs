//! Kinds of files with events, by their first bytes.

/// First bytes of a `trace.dat`.
pub(crate) const TRACE_DAT_MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Number of bytes that tell a file's kind.
pub(crate) const KIND_BYTES: usize = 16;

/// Kinds of importable files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// trace-cmd's file.
    TraceDat,
    /// perf's file.
    PerfData,
    /// A recording.
    Recording,
    /// Anything else.
    Text,
}

impl FileKind {
    /// The kind of a file that begins with these bytes.
    pub(crate) fn detect(first_bytes: &[u8]) -> Self {
        if first_bytes.starts_with(TRACE_DAT_MAGIC) {
            Self::TraceDat
        } else if first_bytes.starts_with(b"PERFILE2") || first_bytes.starts_with(b"2ELIFREP") {
            Self::PerfData
        } else if first_bytes.starts_with(b"PAR1") {
            Self::Recording
        } else {
            Self::Text
        }
    }
}
