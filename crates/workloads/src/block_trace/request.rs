//! A request in a trace.

use serde::Serialize;
use wakepath_units::Nanoseconds;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum TraceIo {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Discards data.
    Trim,
    /// Flushes the drive's cache.
    Flush,
}

impl TraceIo {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
        }
    }
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTraceRequest {
    /// Begin, from the begin of the window.
    pub begin: Nanoseconds,
    /// What the request does.
    pub io: TraceIo,
    /// First byte on the disk or in the file; 0 for flushes.
    pub offset: u64,
    /// Bytes, at least 1; 0 for flushes.
    pub bytes: u64,
    /// End, where the trace has it; not before `begin`.
    pub end: Option<Nanoseconds>,
}

impl BlockTraceRequest {
    /// The request with times counted from `from`, in ns.
    pub(super) fn with_times_from(mut self, from: u64) -> Self {
        self.begin = Nanoseconds(self.begin.0 - from);
        self.end = (self.end).map(|end| Nanoseconds(end.0.saturating_sub(from)));
        self
    }
}
