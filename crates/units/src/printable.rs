//! Text from strangers, shown so that no terminal is steered and nobody takes a line for ours.
//!
//! File names, titles, policies and messages of drivers may hold escape sequences, direction marks and line ends.
//! Output shows such characters as escapes: `\u{1b}`, `\u{202e}`, `\n`.
//!
//! ```
//! use wakepath_units::printable::{escape_for_one_line, escape_except_line_ends};
//!
//! assert_eq!(escape_for_one_line("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
//! assert_eq!(escape_except_line_ends("a\u{202e}b\nc"), "a\\u{202e}b\nc");
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal or a page shows a character as something else, or not at all.
///
/// Hidden are all control characters, all default-ignorable characters of Unicode (`DerivedCoreProperties.txt`:
/// directions, joiners, blanks without width, tags), line and paragraph separators, annotations, and code points that
/// are no characters.
pub fn is_hidden(c: char) -> bool {
    if c.is_control() {
        return true;
    }
    let code = c as u32;
    code & 0xfffe == 0xfffe
        || matches!(
            code,
            0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f
                | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164
                | 0xfdd0..=0xfdef | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
                | 0x1_bca0..=0x1_bca3 | 0x1_d173..=0x1_d17a | 0xe_0000..=0xe_0fff
        )
}

/// Escapes all hidden characters, line ends included, so that a stranger's text can be part of a line.
pub fn escape_for_one_line(text: &str) -> Cow<'_, str> {
    escape_characters(text, is_hidden)
}

/// Escapes all hidden characters but line ends, in text of several lines with strangers' words.
pub fn escape_except_line_ends(text: &str) -> Cow<'_, str> {
    escape_characters(text, |c| c != '\n' && is_hidden(c))
}

/// Escapes hidden characters in JSON without changing the meaning: outside strings, JSON has none but line ends.
pub fn escape_hidden_in_json(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c != '\n' && is_hidden(c);
    if !text.contains(hidden) {
        return text.into();
    }
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(all, "\\u{unit:04x}");
            }
        } else {
            all.push(c);
        }
    }
    all.into()
}

/// Escapes a stranger's text for a line or table cell of Markdown, so that it makes no markup.
pub fn escape_for_markdown(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for c in escape_tags_for_markdown(text).chars() {
        match c {
            '|' | '*' | '`' => cell.extend(['\\', c]),
            // Escaping the `(` breaks a link; brackets alone do nothing.
            '(' if cell.ends_with(']') => cell.push_str("\\("),
            _ => cell.push(c),
        }
    }
    cell
}

/// Escapes hidden characters and HTML tags in a line of Markdown; other markup in the line stays.
pub fn escape_tags_for_markdown(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let shown = escape_for_one_line(text);
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        if c == '<' && (next.is_alphabetic() || "/!?".contains(next)) {
            line.push_str("&lt;");
        } else {
            line.push(c);
        }
    }
    line
}

/// Escapes a cell of CSV so that no spreadsheet takes it for a formula.
///
/// A cell that begins with `=`, `+`, `-` or `@`, also in wide forms, and is no number gets a leading apostrophe:
/// spreadsheets then read text. Hidden characters are escaped as in a line.
pub fn escape_csv_cell(text: &str) -> Cow<'_, str> {
    let cell = escape_for_one_line(text);
    let formula_signs = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    let signed = cell.strip_prefix(['+', '-']);
    let harmless = signed.is_some_and(|rest| rest.is_empty() || is_number(rest));
    if cell.trim_start().starts_with(formula_signs) && !harmless {
        format!("'{cell}").into()
    } else {
        cell
    }
}

/// Quotes a word of a command line for people who copy the command into a shell: nothing in the word is run.
pub fn quote_shell_word(text: &str) -> Cow<'_, str> {
    if !text.is_empty() && text.chars().all(is_plain_in_shell) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', "'\\''")).into()
    }
}

fn is_plain_in_shell(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/._-+=@:".contains(c)
}

/// Whether a text is digits with at most a point and an exponent, or infinite.
fn is_number(text: &str) -> bool {
    text == "inf"
        || text.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
}

fn escape_characters(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return text.into();
    }
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            all.extend(c.escape_default());
        } else {
            all.push(c);
        }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_a_terminal_is_shown() {
        for (text, line) in [
            ("\u{1b}]8;;http://x\u{7}y", "\\u{1b}]8;;http://x\\u{7}y"),
            ("\u{1b}]52;c;ZQ==\u{1b}\\", "\\u{1b}]52;c;ZQ==\\u{1b}\\"),
            ("\u{9b}31m\u{7f}\0", "\\u{9b}31m\\u{7f}\\u{0}"),
            (
                "a\u{2066}b\u{2029}c\u{200b}d",
                "a\\u{2066}b\\u{2029}c\\u{200b}d",
            ),
            ("\u{feff}x\u{e0041}\u{ad}", "\\u{feff}x\\u{e0041}\\u{ad}"),
            ("x\r\ny\tz", "x\\r\\ny\\tz"),
            // Letters from right to left are a name, and quotes are no danger.
            ("\u{5d0} 'q' é", "\u{5d0} 'q' é"),
        ] {
            assert_eq!(escape_for_one_line(text), line);
        }
    }

    #[test]
    fn json_means_the_same() {
        let text = "{\n  \"a\": \"\u{202e}\u{e0041}\u{7f}é\"\n}";
        assert_eq!(
            escape_hidden_in_json(text),
            "{\n  \"a\": \"\\u202e\\udb40\\udc41\\u007fé\"\n}"
        );
    }

    #[test]
    fn markdown_has_no_markup_of_strangers() {
        assert_eq!(
            escape_for_markdown("<img src=x>|*b*\n[a](http://x) psd[timeout=3ms] <-10 a < b"),
            "&lt;img src=x>\\|\\*b\\*\\n[a]\\(http://x) psd[timeout=3ms] <-10 a < b"
        );
    }

    #[test]
    fn no_cell_is_a_formula() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+3.1", "+3.1"),
            ("-2.5e-7", "-2.5e-7"),
            ("-inf", "-inf"),
            ("-", "-"),
            ("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0"),
            ("+nan", "'+nan"),
            ("\t=1", "\\t=1"),
            ("  =1", "'  =1"),
            ("＝1", "'＝1"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(escape_csv_cell(text), cell);
        }
    }

    #[test]
    fn no_word_runs_anything() {
        for (text, word) in [
            ("balance_performance", "balance_performance"),
            ("/sys/devices/cpu0:1/x", "/sys/devices/cpu0:1/x"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("x'; reboot; '", "'x'\\''; reboot; '\\'''"),
        ] {
            assert_eq!(quote_shell_word(text), word);
        }
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            prop_assert!(!escape_for_one_line(&text).contains(is_hidden));
            prop_assert!(!escape_csv_cell(&text).contains(is_hidden));
            prop_assert!(!escape_for_markdown(&text).contains(is_hidden));
            prop_assert!(!escape_except_line_ends(&text).contains(|c| c != '\n' && is_hidden(c)));
            prop_assert!(!escape_hidden_in_json(&text).contains(|c| c != '\n' && is_hidden(c)));
        }
    }
}
