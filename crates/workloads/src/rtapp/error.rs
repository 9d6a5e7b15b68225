//! What can be wrong with an rt-app file, and what is merely worth saying.

use std::fmt;

use serde::Serialize;

use crate::text::shown;

/// Why a file was refused: a problem, its place, the likely intention if there is one, and the other problems of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtAppError {
    /// Name of the file, or what stands for it.
    pub origin: String,
    /// Line of the problem, counted from 1. `None` when it is about the file as a whole.
    pub line: Option<usize>,
    /// The keys that lead to it, such as `tasks.client.run`.
    pub key: Option<String>,
    /// What is wrong and what was expected.
    pub message: String,
    /// The nearest name that would have been understood.
    pub suggestion: Option<Box<str>>,
    /// What else is wrong with the file, in the order of its lines.
    pub also: Box<[Self]>,
}

impl fmt::Display for RtAppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(nearest) = &self.suggestion {
            // It may be a name that the file gives.
            write!(f, "; did you mean `{}`?", shown(nearest))?;
        }
        for other in &self.also {
            write!(f, "\n{other}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RtAppError {}

/// A key that was accepted but that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RtAppWarning {
    /// Line of the key, counted from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// What happens instead of what the key might seem to ask for.
    pub message: String,
    /// How often the file has it.
    pub count: usize,
}

impl RtAppWarning {
    /// Key, message and how often, without the line.
    pub fn sentence(&self) -> String {
        let times = match self.count {
            0 | 1 => String::new(),
            times => format!(" ({times} times)"),
        };
        format!("`{}` {}{times}", shown(&self.key), self.message)
    }
}

impl fmt::Display for RtAppWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.sentence())
    }
}
