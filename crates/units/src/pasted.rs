//! Text pasted into mails and issues: quoted, in other encodings, behind an editor's byte-order mark.

use std::borrow::Cow;

/// Decodes a file's bytes as text. UTF-16 with a byte-order mark, as PowerShell writes, is decoded. Bytes that are no
/// text are replaced, and escape sequences such as those of colours are left out.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    type FromBytes = fn([u8; 2]) -> u16;
    let encodings: [(&[u8], FromBytes); 2] = [
        (&[0xff, 0xfe], u16::from_le_bytes),
        (&[0xfe, 0xff], u16::from_be_bytes),
    ];
    for (mark, unit) in encodings {
        if let Some(rest) = bytes.strip_prefix(mark) {
            let units: Vec<u16> = rest.chunks_exact(2).map(|c| unit([c[0], c[1]])).collect();
            return without_escapes(String::from_utf16_lossy(&units).into());
        }
    }
    line(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

/// A line's bytes as text, without escape sequences such as those of colours. Bytes that are no text are replaced.
pub fn line(bytes: &[u8]) -> Cow<'_, str> {
    without_escapes(String::from_utf8_lossy(bytes))
}

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

fn without_escapes(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        kept.push_str(before);
        rest = after_sequence(after);
    }
    kept.push_str(rest);
    kept.into()
}

/// What follows an escape sequence (ECMA-48), given what follows its escape. A sequence that does not end in its line is left as
/// text, but for the escape.
fn after_sequence(text: &str) -> &str {
    let ended = |rest: &'_ str, is_end: fn(char) -> bool| {
        let within = rest.split('\n').next().unwrap_or_default();
        within
            .char_indices()
            .find(|(_, c)| is_end(*c))
            .map(|(at, c)| at + c.len_utf8())
    };
    let mut chars = text.chars();
    let Some(first) = chars.next() else {
        return text;
    };
    let rest = chars.as_str();
    let end = match first {
        '[' => ended(rest, |c| ('@'..='~').contains(&c)),
        // An operating system command ends with a bell, or with an escape and a backslash.
        ']' => ended(rest, |c| matches!(c, BELL | ESCAPE)).map(|end| {
            if rest[..end].ends_with(ESCAPE) && rest[end..].starts_with('\\') {
                end + 1
            } else {
                end
            }
        }),
        // Which characters a terminal has.
        '(' | ')' => rest.chars().next().map(char::len_utf8),
        _ => return text,
    };
    end.map_or(text, |end| &rest[end..])
}

/// How often a line is quoted with `>`, and the line without these marks.
pub fn unquoted(line: &str) -> (usize, &str) {
    let (mut depth, mut rest) = (0, line);
    while let Some(after) = rest.trim_start().strip_prefix('>') {
        depth += 1;
        rest = after;
    }
    let mark = usize::from(depth > 0 && rest.starts_with([' ', '\u{a0}']));
    let text: &str = match rest.char_indices().nth(mark) {
        Some((at, _)) => &rest[at..],
        None => "",
    };
    (depth, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_titles_of_terminals_are_left_out() {
        for (text, plain) in [
            ("plain", "plain"),
            ("\u{1b}[1;31mps 0\u{1b}[0m : mp", "ps 0 : mp"),
            ("\u{1b}[K\u{1b}(Bname\u{1b}[m", "name"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;x\u{1b}\\b", "ab"),
            // What has no end keeps its text.
            ("a\u{1b}[3\nb", "a[3\nb"),
            ("a\u{1b}", "a"),
            ("\u{1b}\u{1b}[0mx", "x"),
            ("\u{1b}[0\u{e9}", "[0\u{e9}"),
        ] {
            assert_eq!(decode(text.as_bytes()), plain, "{text:?}");
            assert_eq!(line(text.as_bytes()), plain, "{text:?}");
        }
    }

    #[test]
    fn quoting_is_taken_off() {
        for (line, depth, text) in [
            ("ps 0 : mp:3.00W", 0, "ps 0 : mp:3.00W"),
            ("> ps 0", 1, "ps 0"),
            (">> > ps 0", 3, "ps 0"),
            ("  >\u{a0}  rwt:0", 1, "  rwt:0"),
            (">", 1, ""),
            ("", 0, ""),
            (" <idle>-0 [000]", 0, " <idle>-0 [000]"),
        ] {
            assert_eq!(unquoted(line), (depth, text), "{line}");
        }
    }

    #[test]
    fn every_encoding_is_the_same_text() {
        let text = "mn : X\n";
        assert_eq!(decode(text.as_bytes()), text);
        assert_eq!(decode(b"\xef\xbb\xbfmn : X\n"), text);
        for (mark, to_bytes) in [
            ([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]),
            ([0xfe, 0xff], u16::to_be_bytes),
        ] {
            let mut bytes = mark.to_vec();
            bytes.extend(text.encode_utf16().flat_map(to_bytes));
            assert_eq!(decode(&bytes), text);
        }
        assert_eq!(decode(b"\xff"), "\u{fffd}");
    }
}
