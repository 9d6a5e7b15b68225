//! Errors about a file with tasks.

use std::fmt;

use toml::Spanned;

/// Refusal of a file with tasks: its first problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TasksError {
    /// Name of the file.
    pub origin: String,
    /// Line of the problem, counted from 1; `None` if the problem is about the whole file.
    pub line: Option<usize>,
    /// Fault, expectation and remedy.
    pub message: String,
}

impl fmt::Display for TasksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for TasksError {}

/// A text being read, for errors with a line.
#[derive(Clone, Copy)]
pub(super) struct FilePlace<'a> {
    pub(super) text: &'a str,
    pub(super) origin: &'a str,
}

impl FilePlace<'_> {
    pub(super) fn line_of_byte(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    pub(super) fn error_in_line(
        &self,
        line: Option<usize>,
        message: impl Into<String>,
    ) -> TasksError {
        TasksError {
            origin: self.origin.to_owned(),
            line,
            message: message.into(),
        }
    }

    pub(super) fn error_at_value<T>(
        &self,
        value: &Spanned<T>,
        message: impl Into<String>,
    ) -> TasksError {
        let line = self.line_of_byte(value.span().start);
        self.error_in_line(Some(line), message)
    }
}
