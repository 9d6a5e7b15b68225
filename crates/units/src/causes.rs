//! Errors in words, with their causes.

use std::error::Error;

/// An error followed by its causes, each unless the text names the cause already.
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
