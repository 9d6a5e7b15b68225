//! Texts of errors with their causes.

use std::error::Error;

/// An error's text followed by those of its causes; a cause that the text contains already is left out.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// An error with its causes in one line, for a log or a table.
pub fn in_one_line(error: &dyn Error) -> String {
    with_causes(error).replace('\n', " ")
}
