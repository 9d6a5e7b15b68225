//! Text of strangers, shown so that it neither steers a terminal nor passes for a line of ours.
//!
//! File names, titles, policies, what drivers and programs say: all of it may hold escape sequences, characters that turn the
//! text around them, and line ends. They are shown as what they are: `\u{1b}`, `\u{202e}`, `\n`.
//!
//! ```
//! use wakepath_units::printable::{one_line, own_lines};
//!
//! assert_eq!(one_line("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
//! assert_eq!(own_lines("a\u{202e}b\nc"), "a\\u{202e}b\nc");
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal or a page shows this as something else than a character of its own, or not at all.
///
/// That is every control character, every character that Unicode calls default-ignorable (`DerivedCoreProperties.txt`:
/// directions, joiners, blanks of no width, tags), line and paragraph separators, annotations, and code points that are
/// no characters.
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

/// A stranger's text as part of a line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    shown(text, is_hidden)
}

/// Text in lines of our own, with strangers' words in it: line ends stay.
pub fn own_lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| c != '\n' && is_hidden(c))
}

/// JSON with what is hidden as escapes, which mean the same: outside of texts JSON has none of these characters but line
/// ends.
pub fn json(text: &str) -> Cow<'_, str> {
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

/// A stranger's text as part of a line of Markdown, or as a cell of a table: no markup of its own.
pub fn markdown(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for c in without_tags(text).chars() {
        match c {
            '|' | '*' | '`' => cell.extend(['\\', c]),
            // A link: its text alone does nothing.
            '(' if cell.ends_with(']') => cell.push_str("\\("),
            _ => cell.push(c),
        }
    }
    cell
}

/// A line of Markdown, possibly with markup of ours, in which no stranger's words are a tag of HTML or a link.
pub fn without_tags(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let shown = one_line(text);
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        let begins_tag = |next: &char| next.is_alphabetic() || "/!?".contains(*next);
        if c == '<' && chars.peek().is_some_and(begins_tag) {
            line.push_str("&lt;");
        } else {
            line.push(c);
        }
    }
    line
}

/// A cell of CSV that no spreadsheet takes for a formula.
///
/// Cells that begin with `=`, `+`, `-` or `@`, also in their wide forms, and are no numbers get an apostrophe before them, by
/// which spreadsheets know text. What is hidden is shown as in a line.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    let cell = one_line(text);
    let starts = |c: char| "=+-@＝＋－＠".contains(c);
    let signed = cell.strip_prefix(['+', '-']);
    let harmless = signed.is_some_and(|rest| rest.is_empty() || is_number(rest));
    if cell.trim_start().starts_with(starts) && !harmless {
        format!("'{cell}").into()
    } else {
        cell
    }
}

/// A word of a command that people may copy into a shell: nothing in it is run.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@:".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', "'\\''")).into()
    }
}

/// Whether it is digits with at most a point and an exponent, or infinite.
fn is_number(text: &str) -> bool {
    text == "inf"
        || text.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
}

fn shown(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
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
            assert_eq!(one_line(text), line);
        }
    }

    #[test]
    fn json_means_the_same() {
        let text = "{\n  \"a\": \"\u{202e}\u{e0041}\u{7f}é\"\n}";
        assert_eq!(
            json(text),
            "{\n  \"a\": \"\\u202e\\udb40\\udc41\\u007fé\"\n}"
        );
    }

    #[test]
    fn markdown_has_no_markup_of_strangers() {
        assert_eq!(
            markdown("<img src=x>|*b*\n[a](http://x) psd[timeout=3ms] <-10 a < b"),
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
            assert_eq!(csv_cell(text), cell);
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
            assert_eq!(shell_word(text), word);
        }
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            prop_assert!(!one_line(&text).contains(is_hidden));
            prop_assert!(!csv_cell(&text).contains(is_hidden));
            prop_assert!(!markdown(&text).contains(is_hidden));
            prop_assert!(!own_lines(&text).contains(|c| c != '\n' && is_hidden(c)));
            prop_assert!(!json(&text).contains(|c| c != '\n' && is_hidden(c)));
        }
    }
}
