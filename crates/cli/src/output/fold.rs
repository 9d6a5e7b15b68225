//! Folding text into lines no wider than the screen.

use unicode_width::UnicodeWidthStr;

/// Number of terminal columns that a text takes.
pub(crate) fn width_in_terminal_columns(text: &str) -> usize {
    text.width()
}

/// A word from this width on is broken behind its slashes: a path, not `MB/s`.
const PATH: usize = 24;

/// Characters behind which a word wider than a line may be broken.
const WITHIN_WORDS: [char; 5] = ['[', '_', '-', '/', '='];

/// Folds a text into lines with at most so many columns. A line ends behind a blank, a comma or plus sign in policy
/// sets, or a slash in a path. A word is broken only if wider than a line.
pub(crate) fn fold_into_lines(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in split_into_unbreakable_parts(text) {
        if !line.is_empty()
            && width_in_terminal_columns(&line) + width_in_terminal_columns(piece.trim_end())
                > columns
        {
            lines.push(line.trim_end().to_owned());
            line.clear();
        }
        if width_in_terminal_columns(piece.trim_end()) <= columns {
            line.push_str(piece);
            continue;
        }
        for part in piece.split_inclusive(WITHIN_WORDS) {
            if !line.is_empty()
                && width_in_terminal_columns(&line) + width_in_terminal_columns(part.trim_end())
                    > columns
            {
                lines.push(std::mem::take(&mut line));
            }
            for c in part.chars() {
                line.push(c);
                if width_in_terminal_columns(&line) > columns {
                    line.pop();
                    lines.push(std::mem::replace(&mut line, c.to_string()));
                }
            }
        }
    }
    if !line.trim_end().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Folds a text as [`fold_into_lines`], with `indent` blanks before continued lines.
pub(crate) fn fold_with_indent(text: &str, columns: usize, indent: usize) -> Vec<String> {
    if width_in_terminal_columns(text) <= columns {
        return vec![text.to_owned()];
    }
    // All lines except the first are folded to the width without the indent.
    let first = fold_into_lines(text, columns)
        .into_iter()
        .next()
        .unwrap_or_default();
    let rest = text.get(first.len()..).unwrap_or_default().trim_start();
    let more = fold_into_lines(rest, columns.saturating_sub(indent))
        .into_iter()
        .map(|line| " ".repeat(indent) + &line);
    std::iter::once(first).chain(more).collect()
}

/// Width in columns of the widest part that cannot be broken; a name before a bracket is such a part.
pub(crate) fn widest_unbreakable_width(text: &str) -> usize {
    let parts = split_into_unbreakable_parts(text)
        .into_iter()
        .flat_map(|piece| piece.split_inclusive('['));
    parts
        .map(|part| width_in_terminal_columns(part.trim_end()))
        .max()
        .unwrap_or(0)
}

/// Splits a text into parts between which a line may end.
fn split_into_unbreakable_parts(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut start = 0;
    let mut word = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let Some(&(_, next)) = chars.peek() else {
            break;
        };
        let breaks = match c {
            // A number stays with its sign and unit.
            ' ' => !text[..at].ends_with('±') && !" %±".contains(next),
            ',' | ';' => next != ' ',
            '+' => next.is_alphabetic(),
            '/' => {
                width_in_terminal_columns(text[word..].split(' ').next().unwrap_or_default()) > PATH
            }
            _ => false,
        };
        if c == ' ' {
            word = end;
        }
        if breaks {
            all.push(&text[start..end]);
            start = end;
        }
    }
    all.push(&text[start..]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_break_between_words_and_within_policy_sets() {
        let set = "teo@6.18.8 + cpu-latency[limit=20us,cpus=all] + psd[timeout=3ms]";
        assert_eq!(
            fold_into_lines(set, 36),
            [
                "teo@6.18.8 + cpu-latency[limit=20us,",
                "cpus=all] + psd[timeout=3ms]"
            ]
        );
        assert_eq!(
            fold_into_lines(set, 14)[..4],
            ["teo@6.18.8 +", "cpu-latency[", "limit=20us,", "cpus=all] +"]
        );
        assert_eq!(
            fold_into_lines("188.3 ± 1.2 (+3.1 %)", 14),
            ["188.3 ± 1.2", "(+3.1 %)"]
        );
        assert_eq!(fold_into_lines("24 MB/s of I/O", 8), ["24 MB/s", "of I/O"]);
        assert_eq!(
            fold_into_lines("/sys/devices/system/cpu/cpu0/cpuidle", 20),
            ["/sys/devices/system/", "cpu/cpu0/cpuidle"]
        );
        assert_eq!(fold_into_lines("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(fold_into_lines("", 3), [""]);
    }

    #[test]
    fn what_continues_is_indented() {
        assert_eq!(
            fold_with_indent("one two three", 8, 2),
            ["one two", "  three"]
        );
        assert_eq!(fold_with_indent("one", 8, 2), ["one"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_too_wide(text in "[a-z0-9,+/ \\[\\]é]{0,120}", columns in 1_usize..60) {
            let lines = fold_into_lines(&text, columns);
            prop_assert!(lines.iter().all(|line| width_in_terminal_columns(line) <= columns));
            let kept: String = lines.concat().split(' ').collect();
            prop_assert_eq!(kept, text.split(' ').collect::<String>());
        }
    }
}
