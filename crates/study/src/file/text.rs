//! The text of a study: lines of its values, and the names in it.

use toml::Spanned;

use super::error::StudyError;

/// Longest name.
pub(super) const MAX_NAME_BYTES: usize = 100;

/// The text of a study, for errors with lines.
#[derive(Clone, Copy, Debug)]
pub struct StudyText<'a> {
    /// Name of the file, or of the command that made the study.
    pub origin: &'a str,
    /// Text of the file; absent for a study made without a file, whose errors have no line.
    pub text: Option<&'a str>,
}

impl StudyText<'_> {
    /// An error about a value of the file.
    pub fn error<T>(&self, at: &Spanned<T>, message: impl Into<String>) -> StudyError {
        self.error_at(at.span().start, message)
    }

    /// The line of a value of the file, counted from 1.
    pub fn line<T>(&self, at: &Spanned<T>) -> usize {
        self.line_at(at.span().start)
    }

    /// An error about a policy: at its line, or by its name where the file does not have it.
    pub fn policy_error(
        &self,
        place: Option<&Spanned<()>>,
        name: &str,
        message: impl Into<String>,
    ) -> StudyError {
        match place {
            Some(at) => self.error(at, message),
            None => StudyError::Settings(format!("policy '{name}': {}", message.into())),
        }
    }

    pub(super) fn line_at(&self, at: usize) -> usize {
        let text = self.text.unwrap_or_default();
        let before = text.get(..at).unwrap_or(text);
        before.matches('\n').count() + 1
    }

    pub(super) fn error_at(&self, at: usize, message: impl Into<String>) -> StudyError {
        let (origin, message) = (self.origin.to_owned(), message.into());
        match self.text {
            Some(_) => StudyError::File {
                line: self.line_at(at),
                origin,
                message,
            },
            None => StudyError::Settings(format!("{origin}: {message}")),
        }
    }
}

/// Names are parts of tables and messages.
pub(crate) fn check_name(source: StudyText<'_>, name: &Spanned<String>) -> Result<(), StudyError> {
    let text = name.get_ref();
    if text.trim().is_empty() || text.len() > MAX_NAME_BYTES || text.contains(char::is_control) {
        let message = format!("a name has 1 to {MAX_NAME_BYTES} bytes, and no line breaks");
        return Err(source.error(name, message));
    }
    Ok(())
}
