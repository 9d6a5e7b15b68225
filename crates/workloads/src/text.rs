//! Words for messages about what a user wrote.

/// The known name closest to `wrong`, if it is close enough to have been meant: a third of the
/// letters may differ, at least one.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Nothing long is a misspelt option, and the distance takes quadratic time.
    if wrong.len() > 64 {
        return None;
    }
    let tolerated = (wrong.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .min()
        .filter(|&(distance, _)| distance <= tolerated)
        .map(|(_, name)| name)
}

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
