//! Folding text to a width.

use unicode_width::UnicodeWidthStr;

/// Columns needed by a text.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// From so many columns on, a word is broken behind its slashes: a path, not `MB/s`.
const PATH: usize = 24;

/// Characters where a word wider than a line may break.
const WITHIN_WORDS: [char; 5] = ['[', '_', '-', '/', '='];

/// Lines of at most so many columns. It breaks behind blanks, behind commas and plus signs in policy sets, behind slashes in paths,
/// and within a word only where the word is wider than a line.
pub(crate) fn fold(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in split_words(text) {
        if !line.is_empty() && width(&line) + width(piece.trim_end()) > columns {
            lines.push(line.trim_end().to_owned());
            line.clear();
        }
        if width(piece.trim_end()) <= columns {
            line.push_str(piece);
            continue;
        }
        for part in piece.split_inclusive(WITHIN_WORDS) {
            if !line.is_empty() && width(&line) + width(part.trim_end()) > columns {
                lines.push(std::mem::take(&mut line));
            }
            for c in part.chars() {
                line.push(c);
                if width(&line) > columns {
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

/// As [`fold`], with blanks before continued lines.
pub(crate) fn hanging(text: &str, columns: usize, indent: usize) -> Vec<String> {
    if width(text) <= columns {
        return vec![text.to_owned()];
    }
    // All lines are folded to the indented width, except the first.
    let first = fold(text, columns).into_iter().next().unwrap_or_default();
    let rest = text.get(first.len()..).unwrap_or_default().trim_start();
    let more = fold(rest, columns.saturating_sub(indent))
        .into_iter()
        .map(|line| " ".repeat(indent) + &line);
    std::iter::once(first).chain(more).collect()
}

/// The widest unbreakable part; a name before a bracket is such a part.
pub(crate) fn widest_piece(text: &str) -> usize {
    let parts = split_words(text)
        .into_iter()
        .flat_map(|piece| piece.split_inclusive('['));
    parts.map(|part| width(part.trim_end())).max().unwrap_or(0)
}

/// A text in parts between which a line may end.
fn split_words(text: &str) -> Vec<&str> {
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
            // Numbers stay with their sign and unit.
            ' ' => !text[..at].ends_with('±') && !" %±".contains(next),
            ',' | ';' => next != ' ',
            '+' => next.is_alphabetic(),
            '/' => width(text[word..].split(' ').next().unwrap_or_default()) > PATH,
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
            fold(set, 36),
            [
                "teo@6.18.8 + cpu-latency[limit=20us,",
                "cpus=all] + psd[timeout=3ms]"
            ]
        );
        assert_eq!(
            fold(set, 14)[..4],
            ["teo@6.18.8 +", "cpu-latency[", "limit=20us,", "cpus=all] +"]
        );
        assert_eq!(
            fold("188.3 ± 1.2 (+3.1 %)", 14),
            ["188.3 ± 1.2", "(+3.1 %)"]
        );
        assert_eq!(fold("24 MB/s of I/O", 8), ["24 MB/s", "of I/O"]);
        assert_eq!(
            fold("/sys/devices/system/cpu/cpu0/cpuidle", 20),
            ["/sys/devices/system/", "cpu/cpu0/cpuidle"]
        );
        assert_eq!(fold("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(fold("", 3), [""]);
    }

    #[test]
    fn what_continues_is_indented() {
        assert_eq!(hanging("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(hanging("one", 8, 2), ["one"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_too_wide(text in "[a-z0-9,+/ \\[\\]é]{0,120}", columns in 1_usize..60) {
            let lines = fold(&text, columns);
            prop_assert!(lines.iter().all(|line| width(line) <= columns));
            let kept: String = lines.concat().split(' ').collect();
            prop_assert_eq!(kept, text.split(' ').collect::<String>());
        }
    }
}
