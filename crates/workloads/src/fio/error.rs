//! What can be wrong with a job file, and what is merely worth saying.

use std::fmt;

use serde::Serialize;
use wakepath_units::spelling::nearest;

pub(super) use crate::text::shown;

/// Why a job file was refused: one problem, its place, and the likely intention if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioError {
    /// Name of the file, or what stands for it (`-` for standard input).
    pub origin: String,
    /// Line of the problem, counted from 1. `None` when it is about the file as a whole.
    pub line: Option<usize>,
    /// What is wrong and what was expected.
    pub message: String,
    /// The nearest name that would have been understood.
    pub suggestion: Option<String>,
}

impl fmt::Display for FioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(nearest) = &self.suggestion {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        Ok(())
    }
}

impl std::error::Error for FioError {}

/// Something in a job file that was accepted but that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioWarning {
    /// Line that the warning is about, counted from 1.
    pub line: usize,
    /// The option (or `section`) that the warning is about.
    pub option: String,
    /// What happens instead of what the line might seem to ask for.
    pub message: String,
}

impl fmt::Display for FioWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}` {}", self.line, self.option, self.message)
    }
}

/// A problem on a line whose number the caller knows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) suggestion: Option<String>,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            suggestion: None,
        }
    }

    pub(super) fn nearest<'a>(
        mut self,
        wrong: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.suggestion = nearest(wrong, known).map(str::to_owned);
        self
    }

    pub(super) fn at(self, origin: &str, line: usize) -> FioError {
        FioError {
            origin: origin.to_owned(),
            line: Some(line),
            message: self.message,
            suggestion: self.suggestion,
        }
    }
}
