//! Errors and warnings about an rt-app file.

use std::fmt;

use serde::Serialize;

use crate::text::escape_and_shorten;

/// Refusal of an rt-app file: a problem with its position and the nearest valid name, and further problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtAppError {
    /// Name of the rt-app file, or a placeholder.
    pub origin: String,
    /// Line of the problem, counted from 1. `None` when the problem is about the whole file.
    pub line: Option<usize>,
    /// Path of keys to the problem, such as `tasks.client.run`.
    pub key: Option<String>,
    /// What is wrong, and what was expected.
    pub message: String,
    /// The nearest valid name, if the problem is an unknown name.
    pub suggestion: Option<Box<str>>,
    /// Further problems of the file, in line order.
    pub also: Box<[Self]>,
}

impl RtAppError {
    /// Refusal of a file because of a problem with the file as a whole.
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
            // The file may have chosen the name, so control characters are escaped.
            write!(f, "; did you mean `{}`?", escape_and_shorten(nearest))?;
        }
        for other in &self.also {
            write!(f, "\n{other}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RtAppError {}

/// A warning about an rt-app file: the key was accepted, but has another effect than a user may expect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RtAppWarning {
    /// Line with the key, counted from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// The actual effect, which differs from what the key suggests.
    pub message: String,
    /// How often the file has this case.
    pub count: usize,
}

impl RtAppWarning {
    /// The warning in a sentence, without the line: key, message and number of occurrences.
    pub fn sentence(&self) -> String {
        let times = match self.count {
            0 | 1 => String::new(),
            times => format!(" ({times} times)"),
        };
        format!(
            "`{}` {}{times}",
            escape_and_shorten(&self.key),
            self.message
        )
    }
}

impl fmt::Display for RtAppWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.sentence())
    }
}
