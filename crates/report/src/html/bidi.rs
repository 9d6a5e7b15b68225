//! Policy and workload names with characters that steer a terminal, or would turn the text around them.

use std::borrow::Cow;
use std::fmt::Write as _;

use minijinja::{Error, Output, State, Value, escape_formatter};

/// Whether a character sets a direction for the following text: marks, embeddings, overrides and isolates (Unicode Standard Annex 9).
pub const fn sets_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is written from right to left.
fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Characters before and behind words that keep a direction of their own (Unicode Standard Annex 9).
const FIRST_STRONG_ISOLATE: char = '\u{2068}';
const POP_ISOLATE: char = '\u{2069}';

/// Whether a character steers the terminal of somebody who looks at a page's source. Line ends and tabs do not.
fn steers_terminal(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// A text for the page: controls and characters that set a direction become code points, and words from right to left are
/// isolated, so the sentence around a name keeps its order. `<bdi>` does not work in titles, attributes and pictures.
pub(super) fn neutralise_controls_and_direction(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| sets_direction(c) || is_right_to_left(c) || steers_terminal(c)) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if sets_direction(c) || steers_terminal(c) {
            _ = write!(shown, "[U+{:04X}]", u32::from(c));
        } else if is_right_to_left(c) {
            let words = leading_right_to_left_words(rest);
            shown.push(FIRST_STRONG_ISOLATE);
            shown.push_str(words);
            shown.push(POP_ISOLATE);
            rest = &rest[words.len()..];
            continue;
        } else {
            shown.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    shown.into()
}

/// Words from right to left at the start of a text, with blanks and hyphens in between.
fn leading_right_to_left_words(text: &str) -> &str {
    let end = text.find(|c: char| {
        let is_letter = is_right_to_left(c) && !sets_direction(c);
        !is_letter && !" -_".contains(c)
    });
    let words = &text[..end.unwrap_or(text.len())];
    words.trim_end_matches([' ', '-', '_'])
}

/// Writes a value into the page: escaped unless the template calls it safe, with direction marks shown as code points.
pub(super) fn write_value_escaped_unless_safe(
    out: &mut Output<'_>,
    state: &State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value
        .as_str()
        .filter(|_| !value.is_safe())
        .map(neutralise_controls_and_direction)
    {
        Some(Cow::Owned(shown)) => escape_formatter(out, state, &Value::from(shown)),
        _ => escape_formatter(out, state, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_right_to_left_keeps_the_order_of_its_sentence() {
        assert_eq!(
            neutralise_controls_and_direction("teo: better than menu"),
            "teo: better than menu"
        );
        assert_eq!(
            neutralise_controls_and_direction("\u{5d0}\u{5d1} \u{5d2}: better than \u{627}, 3 %"),
            "\u{2068}\u{5d0}\u{5d1} \u{5d2}\u{2069}: better than \u{2068}\u{627}\u{2069}, 3 %"
        );
        // What a name brings along itself is shown, never followed.
        assert_eq!(
            neutralise_controls_and_direction("a\u{202e}b\u{2069}"),
            "a[U+202E]b[U+2069]"
        );
        assert_eq!(
            neutralise_controls_and_direction("\u{5d0}\u{61c}"),
            "\u{2068}\u{5d0}\u{2069}[U+061C]"
        );
    }

    #[test]
    fn control_characters_are_shown_as_code_points() {
        assert_eq!(
            neutralise_controls_and_direction("\u{1b}[31mred\u{7f}\u{9b}1m\r"),
            "[U+001B][31mred[U+007F][U+009B]1m[U+000D]"
        );
        assert_eq!(neutralise_controls_and_direction("a\tb\n"), "a\tb\n");
    }
}
