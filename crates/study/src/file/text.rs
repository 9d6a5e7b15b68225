//! The text of a study, with the line of each value.

use toml::Spanned;

use super::error::StudyError;

/// Longest name.
pub(super) const MAX_NAME_BYTES: usize = 100;

/// The text of a study, for errors that name a line.
#[derive(Clone, Copy, Debug)]
pub struct StudyText<'a> {
    /// Name of the study file, or of the command that made the study.
    pub origin: &'a str,
    /// Text of the study file; absent for a study made without a file, whose errors have no line.
    pub text: Option<&'a str>,
}

impl StudyText<'_> {
    /// An error about a value in the study file, with its line.
    pub fn error_at_value<T>(&self, at: &Spanned<T>, message: impl Into<String>) -> StudyError {
        self.error_at_byte(at.span().start, message)
    }

    /// The number of the line with a value, counted from 1.
    pub fn line_of_value<T>(&self, at: &Spanned<T>) -> usize {
        self.line_at_byte(at.span().start)
    }

    /// An error about a policy: with its line, or with its name if the policy is not from the file.
    pub fn policy_error(
        &self,
        place: Option<&Spanned<()>>,
        name: &str,
        message: impl Into<String>,
    ) -> StudyError {
        match place {
            Some(at) => self.error_at_value(at, message),
            None => StudyError::Settings(format!("policy '{name}': {}", message.into())),
        }
    }

    pub(super) fn line_at_byte(&self, at: usize) -> usize {
        let text = self.text.unwrap_or_default();
        let before = text.get(..at).unwrap_or(text);
        before.matches('\n').count() + 1
    }

    pub(super) fn error_at_byte(&self, at: usize, message: impl Into<String>) -> StudyError {
        let (origin, message) = (self.origin.to_owned(), message.into());
        match self.text {
            Some(_) => StudyError::File {
                line: self.line_at_byte(at),
                origin,
                message,
            },
            None => StudyError::Settings(format!("{origin}: {message}")),
        }
    }
}

/// Checks a name in the study file: names are used in tables, paths and messages.
pub(crate) fn check_name_length_and_characters(
    source: StudyText<'_>,
    name: &Spanned<String>,
) -> Result<(), StudyError> {
    let text = name.get_ref();
    if text.trim().is_empty() || text.len() > MAX_NAME_BYTES || text.contains(char::is_control) {
        let message = format!("a name has 1 to {MAX_NAME_BYTES} bytes, and no line breaks");
        return Err(source.error_at_value(name, message));
    }
    Ok(())
}
