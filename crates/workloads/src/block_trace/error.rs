//! Refusal of a block trace.

use std::fmt;

/// Refusal of a block trace: a problem with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTraceError {
    /// Trace's name.
    pub origin: String,
    /// Problem's line, counted from 1. `None` if the whole trace is the problem.
    pub line: Option<u64>,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl BlockTraceError {
    pub(super) fn for_whole_trace(origin: &str, message: impl Into<String>) -> Self {
        Self {
            origin: origin.to_owned(),
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for BlockTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for BlockTraceError {}

/// A problem in a line; the caller adds the trace's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineProblem {
    /// Problem's line, counted from 1.
    pub(super) line: u64,
    pub(super) message: String,
}

impl LineProblem {
    pub(super) fn in_trace(self, origin: &str) -> BlockTraceError {
        BlockTraceError {
            origin: origin.to_owned(),
            line: Some(self.line),
            message: self.message,
        }
    }
}

/// A problem in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TraceProblem {
    /// In a text's line.
    Line(LineProblem),
    /// In a file; the error has the name.
    File(BlockTraceError),
}

impl TraceProblem {
    /// The error; `origin` names a text.
    pub(super) fn in_trace(self, origin: &str) -> BlockTraceError {
        match self {
            Self::Line(problem) => problem.in_trace(origin),
            Self::File(error) => error,
        }
    }
}

impl From<LineProblem> for TraceProblem {
    fn from(problem: LineProblem) -> Self {
        Self::Line(problem)
    }
}

impl From<BlockTraceError> for TraceProblem {
    fn from(error: BlockTraceError) -> Self {
        Self::File(error)
    }
}
