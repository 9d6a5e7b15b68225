//! Making a user's text fit for error messages.

/// Text that a user wrote, for a message: control characters escaped, shortened to less than a line.
pub(crate) fn escape_and_shorten(text: &str) -> String {
    const MOST: usize = 60;
    let mut out: String = text
        .chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(MOST).is_some() {
        out.push_str("...");
    }
    out
}
