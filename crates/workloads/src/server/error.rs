//! Errors about a server file.

use std::fmt;

use toml::Spanned;

/// Refusal of a server file: its first problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Name of the server file, or of the file with its arrival times.
    pub origin: String,
    /// Line of the problem, counted from 1; `None` if the problem is about the whole file.
    pub line: Option<usize>,
    /// Fault, expectation and remedy.
    pub message: String,
}

impl ServerError {
    /// Refusal of a file because of a problem with the file as a whole.
    pub(super) fn for_file(origin: &str, message: impl Into<String>) -> Self {
        Self {
            origin: origin.to_owned(),
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ServerError {}

/// A text being read, for errors that name a line.
#[derive(Clone, Copy)]
pub(super) struct TextPlace<'a> {
    pub(super) text: &'a str,
    pub(super) origin: &'a str,
}

impl TextPlace<'_> {
    pub(super) fn error_at_byte(&self, at: usize, message: impl Into<String>) -> ServerError {
        let before = self.text.get(..at).unwrap_or(self.text);
        ServerError {
            origin: self.origin.to_owned(),
            line: Some(before.matches('\n').count() + 1),
            message: message.into(),
        }
    }

    pub(super) fn error_at_value<T>(
        &self,
        value: &Spanned<T>,
        message: impl Into<String>,
    ) -> ServerError {
        self.error_at_byte(value.span().start, message)
    }
}
