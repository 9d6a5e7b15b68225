//! Names whose characters would turn the text around them.

use std::borrow::Cow;
use std::fmt::Write as _;

use minijinja::{Error, Output, State, Value, escape_formatter};

/// Whether this sets a direction for what follows: marks, embeddings, overrides and isolates (Unicode Standard Annex 9).
fn is_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with such characters as their code points. `<bdi>` cannot hold them in titles, attributes and pictures.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) {
            _ = write!(shown, "[U+{:04X}]", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// Writes a value of the template, escaped unless it is safe.
pub(super) fn format(
    out: &mut Output<'_>,
    state: &State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value.as_str().filter(|_| !value.is_safe()).map(visible) {
        Some(Cow::Owned(shown)) => escape_formatter(out, state, &Value::from(shown)),
        _ => escape_formatter(out, state, value),
    }
}
