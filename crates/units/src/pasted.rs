//! Text pasted into mails and issues: quoted, in other encodings, behind an editor's byte-order mark.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::string::FromUtf8Error;

mod hosts;

use hosts::HostLines;
pub use hosts::{SeveralHosts, without_hosts};

/// A function that makes a UTF-16 unit from two bytes, in one byte order.
type FromBytes = fn([u8; 2]) -> u16;

/// Byte-order marks that open a text in UTF-16, each with its byte order.
const UTF16_MARKS: [(&[u8], FromBytes); 2] = [
    (&[0xff, 0xfe], u16::from_le_bytes),
    (&[0xfe, 0xff], u16::from_be_bytes),
];

/// The mark that Windows' editors put before UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Number of bytes by which UTF-16 without a byte-order mark is recognised.
const UTF16_SAMPLE: usize = 128;

/// Decodes a file's bytes as text. UTF-16, as PowerShell writes, is decoded ([`is_utf16`]). Bytes that are no text are
/// replaced, and escape sequences such as those of colours are left out.
pub fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match decode_utf16(bytes) {
        Some(text) => without_escapes(text.into()),
        None => decode_line(bytes.strip_prefix(UTF8_MARK).unwrap_or(bytes)),
    }
}

/// Decodes a line's bytes as text without escape sequences such as those of colours. Bytes that are no text are replaced.
pub fn decode_line(bytes: &[u8]) -> Cow<'_, str> {
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
        rest = skip_escape_sequence(after);
    }
    kept.push_str(rest);
    kept.into()
}

/// Returns the text behind an escape sequence (ECMA-48), given the text behind its escape. A sequence that does not end in its line stays as
/// text, but for the escape.
fn skip_escape_sequence(text: &str) -> &str {
    let mut chars = text.chars();
    let Some(first) = chars.next() else {
        return text;
    };
    let rest = chars.as_str();
    let end = match first {
        '[' => end_of_first_match_in_line(rest, |c| ('@'..='~').contains(&c)),
        // An operating system command ends with a bell, or with an escape and a backslash.
        ']' => end_of_first_match_in_line(rest, |c| matches!(c, BELL | ESCAPE)).map(|end| {
            if !rest[..end].ends_with(ESCAPE) {
                end
            } else if rest[end..].starts_with('\\') {
                end + 1
            } else {
                // The escape that ends the command begins the next sequence.
                end - ESCAPE.len_utf8()
            }
        }),
        // A sequence that selects a terminal's character set has one more character.
        '(' | ')' => rest
            .chars()
            .next()
            .filter(|c| *c != '\n')
            .map(char::len_utf8),
        _ => return text,
    };
    end.map_or(text, |end| &rest[end..])
}

/// As [`decode_text`], but bytes that are neither UTF-16 without faults nor UTF-8 are refused, and escape sequences stay.
///
/// # Errors
/// The bytes are no such text.
pub fn decode_text_strictly(mut bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    if let Some(text) = decode_utf16_without_faults(&bytes) {
        return Ok(text);
    }
    if bytes.starts_with(UTF8_MARK) {
        bytes.drain(..UTF8_MARK.len());
    }
    String::from_utf8(bytes)
}

/// Whether bytes are text in UTF-16: by a byte-order mark or, without one, because most of the first characters are ASCII and
/// none is NUL.
pub fn is_utf16(bytes: &[u8]) -> bool {
    utf16_text_and_order(bytes).is_some()
}

fn decode_utf16(bytes: &[u8]) -> Option<String> {
    let (text, order) = utf16_text_and_order(bytes)?;
    Some(String::from_utf16_lossy(&utf16_units(text, order)))
}

/// Decodes UTF-16; `None` for other bytes, a mark without any text behind it, and text with a fault.
fn decode_utf16_without_faults(bytes: &[u8]) -> Option<String> {
    let (text, order) = utf16_text_and_order(bytes)?;
    let is_whole = !text.is_empty() && text.len().is_multiple_of(2);
    is_whole
        .then(|| String::from_utf16(&utf16_units(text, order)).ok())
        .flatten()
}

/// The bytes behind the byte-order mark of UTF-16, and the byte order; `None` if the text is not UTF-16.
fn utf16_text_and_order(bytes: &[u8]) -> Option<(&[u8], FromBytes)> {
    for (mark, order) in UTF16_MARKS {
        if let Some(text) = bytes.strip_prefix(mark) {
            return Some((text, order));
        }
    }
    let start = &bytes[..bytes.len().min(UTF16_SAMPLE)];
    let mut orders = UTF16_MARKS.iter().map(|(_, order)| *order);
    let order = orders.find(|order| is_mostly_ascii(&utf16_units(start, *order)))?;
    Some((bytes, order))
}

fn is_mostly_ascii(units: &[u16]) -> bool {
    units.len() >= 4
        && !units.contains(&0)
        && 4 * units.iter().filter(|unit| is_ascii_text(**unit)).count() >= 3 * units.len()
}

fn is_ascii_text(unit: u16) -> bool {
    matches!(unit, 0x9 | 0xa | 0xd | 0x20..=0x7e)
}

/// All complete UTF-16 units of `bytes`.
fn utf16_units(bytes: &[u8], order: FromBytes) -> Vec<u16> {
    let (pairs, _) = bytes.as_chunks();
    pairs.iter().map(|&pair| order(pair)).collect()
}

/// Number of bytes in which names of machines are looked for.
const HOSTS_SAMPLE: u64 = 1 << 16;
/// Longest line in bytes of a text with names of machines; longer lines are cut.
const MAX_LINE: u64 = 1 << 17;

/// A text too long for memory, read as UTF-8 and without names of machines: [`decode_text`] and [`without_hosts`] for streams.
/// Reading fails with [`SeveralHosts`] where lines are of another machine.
#[derive(Debug)]
pub struct DecodedText<R> {
    text: BufReader<Chain<Cursor<Vec<u8>>, Utf8Reader<R>>>,
    hosts: Option<HostLines>,
    /// Bytes of a line without its machine's name that have not been read yet.
    ready: VecDeque<u8>,
}

impl<R: Read> DecodedText<R> {
    /// Begins to decode an input: reads its start to recognise the encoding and names of machines.
    ///
    /// # Errors
    /// Errors of reading the input.
    pub fn new(input: R) -> io::Result<Self> {
        let mut decoder = Utf8Reader::new(input)?;
        let mut sample = Vec::new();
        (&mut decoder).take(HOSTS_SAMPLE).read_to_end(&mut sample)?;
        let is_cut = sample.len() as u64 == HOSTS_SAMPLE;
        let end = sample.iter().rposition(|b| *b == b'\n' && is_cut);
        let lines = &sample[..end.unwrap_or(sample.len())];
        Ok(Self {
            hosts: HostLines::detect(&String::from_utf8_lossy(lines)),
            text: BufReader::new(Cursor::new(sample).chain(decoder)),
            ready: VecDeque::new(),
        })
    }
}

impl<R: Read> Read for DecodedText<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(hosts) = &mut self.hosts else {
            return self.text.read(out);
        };
        // A line that holds nothing but a machine's name does not end the stream.
        while self.ready.is_empty() {
            let mut bytes = Vec::new();
            (&mut self.text)
                .take(MAX_LINE)
                .read_until(b'\n', &mut bytes)?;
            if bytes.is_empty() {
                return Ok(0);
            }
            let text = String::from_utf8_lossy(&bytes);
            let line = text.strip_suffix('\n').unwrap_or(&text);
            self.ready
                .extend(hosts.strip_host(line).map_err(io::Error::other)?.bytes());
            self.ready.extend(text[line.len()..].bytes());
        }
        self.ready.read(out)
    }
}

/// A stream's text in UTF-8, whatever its encoding.
#[derive(Debug)]
struct Utf8Reader<R> {
    input: R,
    /// The byte order if the input is UTF-16; otherwise `None`.
    order: Option<FromBytes>,
    /// Bytes of UTF-16 that do not form a complete character yet.
    cut: Vec<u8>,
    ready: VecDeque<u8>,
}

impl<R: Read> Utf8Reader<R> {
    fn new(mut input: R) -> io::Result<Self> {
        let mut start = Vec::new();
        input
            .by_ref()
            .take(UTF16_SAMPLE as u64)
            .read_to_end(&mut start)?;
        let (order, cut, ready) = if let Some((text, order)) = utf16_text_and_order(&start) {
            (Some(order), text.to_vec(), VecDeque::new())
        } else {
            let text = start.strip_prefix(UTF8_MARK).unwrap_or(&start);
            (None, Vec::new(), text.iter().copied().collect())
        };
        Ok(Self {
            input,
            order,
            cut,
            ready,
        })
    }

    /// Decodes one more block of UTF-16 input; returns false at the end of the input.
    fn decode_block(&mut self, order: FromBytes) -> io::Result<bool> {
        let mut block = [0; 1 << 14];
        let read = self.input.read(&mut block)?;
        self.cut
            .extend_from_slice(block.get(..read).unwrap_or_default());
        let mut whole = utf16_units(&self.cut, order);
        // The second half of a surrogate pair comes with the next block.
        if read > 0 && matches!(whole.last(), Some(0xd800..=0xdbff)) {
            whole.pop();
        }
        self.cut.drain(..2 * whole.len());
        self.ready.extend(String::from_utf16_lossy(&whole).bytes());
        Ok(read > 0)
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(order) = self.order {
            while self.ready.is_empty() && self.decode_block(order)? {}
        } else if self.ready.is_empty() {
            return self.input.read(out);
        }
        self.ready.read(out)
    }
}

/// Returns how often a line of a mail is quoted with `>`, and the line without the quote marks.
pub fn quote_depth_and_text(line: &str) -> (usize, &str) {
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

/// Byte position behind the first character in the text's first line for which `is_end` is true.
fn end_of_first_match_in_line(text: &str, is_end: fn(char) -> bool) -> Option<usize> {
    let line = text.split('\n').next().unwrap_or_default();
    let mut chars = line.char_indices();
    let (at, last) = chars.find(|(_, c)| is_end(*c))?;
    Some(at + last.len_utf8())
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
            assert_eq!(decode_text(text.as_bytes()), plain, "{text:?}");
            assert_eq!(decode_line(text.as_bytes()), plain, "{text:?}");
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
            assert_eq!(quote_depth_and_text(line), (depth, text), "{line}");
        }
    }

    #[test]
    fn every_encoding_is_the_same_text() {
        let text = "mn : X\n";
        assert_eq!(decode_text(text.as_bytes()), text);
        assert_eq!(decode_text(b"\xef\xbb\xbfmn : X\n"), text);
        for (mark, to_bytes) in [
            ([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]),
            ([0xfe, 0xff], u16::to_be_bytes),
        ] {
            let mut bytes = mark.to_vec();
            bytes.extend(text.encode_utf16().flat_map(to_bytes));
            assert_eq!(decode_text(&bytes), text);
        }
        assert_eq!(decode_text(b"\xff"), "\u{fffd}");
        assert_eq!(
            decode_text_strictly(b"\xef\xbb\xbfmn : X\n".to_vec()).unwrap(),
            text
        );
        assert_eq!(
            decode_text_strictly(b"\xfe\xff\0m\0n\0\n".to_vec()).unwrap(),
            "mn\n"
        );
        // A mark alone, half a character, and half a pair of surrogates are no text.
        for bytes in [&b"\xff"[..], b"\xff\xfe", b"\xff\xfea", b"\xff\xfe\x00\xd8"] {
            assert!(decode_text_strictly(bytes.to_vec()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_stream_is_the_same_text_in_every_encoding() {
        // Longer than a block, with a pair of surrogates across each odd place.
        let text = format!("x{}\n", "\u{1f600}\u{e4}a".repeat(9000));
        let units = || text.encode_utf16();
        let little = [0xff, 0xfe]
            .into_iter()
            .chain(units().flat_map(u16::to_le_bytes));
        let big = [0xfe, 0xff]
            .into_iter()
            .chain(units().flat_map(u16::to_be_bytes));
        let marked = UTF8_MARK.iter().copied().chain(text.bytes());
        let encodings: [Vec<u8>; 4] = [
            little.collect(),
            big.collect(),
            marked.collect(),
            text.clone().into(),
        ];
        for bytes in encodings {
            let mut read = String::new();
            let mut stream = DecodedText::new(bytes.as_slice()).unwrap();
            stream.read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
        for short in [&b""[..], b"a", b"\xff\xfe", b"\xff\xfea"] {
            let mut read = Vec::new();
            DecodedText::new(short)
                .unwrap()
                .read_to_end(&mut read)
                .unwrap();
            assert!(read.len() <= 1, "{short:?}");
        }
    }
}
