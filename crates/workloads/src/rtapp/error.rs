//! What can be wrong with an rt-app file, and what is merely worth saying.

use std::fmt;

use serde::Serialize;

use crate::text::shown;

/// Refusal of a file: a problem with position and probable intention, and further problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtAppError {
    /// Name of the file, or a placeholder.
    pub origin: String,
    /// Line of the problem, counted from 1. `None` when it is about the file as a whole.
    pub line: Option<usize>,
    /// Path of keys, such as `tasks.client.run`.
    pub key: Option<String>,
    /// The fault and the expected input.
    pub message: String,
    /// The nearest name that would have been understood.
    pub suggestion: Option<Box<str>>,
    /// Further problems, in line order.
    pub also: Box<[Self]>,
}

impl RtAppError {
    /// A problem of the file as a whole.
    pub(super) fn for_file(origin: &str, message: impl Into<String>) -> Self {
        Self {
            origin: origin.to_owned(),
            line: None,
            key: None,
            message: message.into(),
            suggestion: None,
            also: Box::default(),
        }
    }
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
            // The name may come from the file.
            write!(f, "; did you mean `{}`?", shown(nearest))?;
        }
        for other in &self.also {
            write!(f, "\n{other}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RtAppError {}

/// An accepted key that deserves the user's attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RtAppWarning {
    /// Line of the key, counted from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// The actual effect, which differs from what the key suggests.
    pub message: String,
    /// Number of occurrences in the file.
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
