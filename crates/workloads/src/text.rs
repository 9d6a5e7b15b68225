//! Words for messages about what a user wrote.

/// A piece of the user's text for a message: control characters escaped, never more than a line.
pub(crate) fn shown(text: &str) -> String {
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
