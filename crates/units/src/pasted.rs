//! Text pasted into mails and issues: quoted, in other encodings, behind an editor's byte-order mark.

use std::borrow::Cow;

/// Decodes a file's bytes as text. UTF-16 with a byte-order mark, as PowerShell writes, is decoded; bytes that are no
/// text are replaced.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    type FromBytes = fn([u8; 2]) -> u16;
    let encodings: [(&[u8], FromBytes); 2] = [
        (&[0xff, 0xfe], u16::from_le_bytes),
        (&[0xfe, 0xff], u16::from_be_bytes),
    ];
    for (mark, unit) in encodings {
        if let Some(rest) = bytes.strip_prefix(mark) {
            let units: Vec<u16> = rest.chunks_exact(2).map(|c| unit([c[0], c[1]])).collect();
            return String::from_utf16_lossy(&units).into();
        }
    }
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
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
