//! APST tables as tools print them: bytes, hexadecimal dumps, and the words of `nvme get-feature -f 0x0c -H`.

use wakepath_hardware::drive::MAX_POWER_STATES;
use wakepath_units::pasted;

use super::{ApstTable, TABLE_BYTES};

/// Forms of a printed APST table that are accepted, for error messages.
const FORMS: &str = "expected what `nvme get-feature -f 0x0c` prints (with -H, with -b, with -o json, or plain), or a \
     hexadecimal dump of its 256 bytes";

/// Hexadecimal digits in a row of a dump of an APST table.
const ROW_NIBBLES: usize = 32;
/// Bytes of an APST table's entry, one for each power state.
const ENTRY_BYTES: usize = 8;

/// An APST table read from what a tool printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedTable {
    /// The APST table; entries that were not printed are 0.
    pub table: ApstTable,
    /// Whether autonomous power state transitions are on; `None`: the tool did not print it.
    pub enabled: Option<bool>,
    /// Number of entries of the APST table that were not printed and count as 0.
    pub missing: usize,
}

/// Why a text has no APST table that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .line.map(|l| format!("line {l}: ")).unwrap_or_default())]
pub struct NoPrintedTable {
    /// Line of the printed text with the problem, counted from 1; `None` if no single line has it.
    pub line: Option<usize>,
    /// What is wrong with the printed text, and what was expected.
    pub problem: String,
}

impl PrintedTable {
    /// Reads an APST table in any form that tools print. Text may be quoted and indented.
    ///
    /// # Errors
    /// The input has none of the formats, or is incomplete.
    pub fn parse(data: &[u8]) -> Result<Self, NoPrintedTable> {
        // An APST table has reserved bits that are 0, so a binary table is never plain text.
        if data.is_empty()
            || !data.iter().all(|byte| is_text_byte(*byte)) && !pasted::is_utf16(data)
        {
            return Self::from_table_bytes(data, None);
        }
        let text = pasted::without_hosts(pasted::decode_text(data))
            .map_err(|several| NoPrintedTable::about_whole_text(several.to_string()))?;
        let lines: Vec<&str> = text
            .lines()
            .map(|line| pasted::quote_depth_and_text(line).1.trim())
            .collect();
        if text.contains("(ITPT)") {
            return Self::parse_entries_in_words(&lines);
        }
        let mut bytes = parse_hex_dump(&lines)?;
        let missing = MAX_POWER_STATES - bytes.len() / ENTRY_BYTES;
        bytes.resize(TABLE_BYTES, 0);
        let printed = Self::from_table_bytes(&bytes, find_feature_state(&lines))?;
        Ok(Self { missing, ..printed })
    }

    fn from_table_bytes(bytes: &[u8], enabled: Option<bool>) -> Result<Self, NoPrintedTable> {
        let table = ApstTable::from_bytes(bytes)
            .map_err(|e| NoPrintedTable::about_whole_text(format!("{e}; {FORMS}")))?;
        Ok(Self {
            table,
            enabled,
            missing: 0,
        })
    }

    /// Reads a table printed in words: each entry has a number, then a time (ITPT), then a target
    /// (ITPS).
    fn parse_entries_in_words(lines: &[&str]) -> Result<Self, NoPrintedTable> {
        let mut entries: [Option<u64>; MAX_POWER_STATES] = [None; MAX_POWER_STATES];
        let (mut next, mut time) = (0, None);
        for (index, line) in lines.iter().enumerate() {
            for word in find_entry_parts(line) {
                match word {
                    Word::Entry(number) => next = number.unwrap_or(MAX_POWER_STATES),
                    Word::Time(ms) => {
                        let valid = ms.filter(|ms| *ms <= super::MAX_TIMEOUT_MS);
                        time = Some(valid.ok_or_else(|| {
                            NoPrintedTable::on_line(
                                index,
                                "expected milliseconds of 24 bits after (ITPT)",
                            )
                        })?);
                    }
                    Word::Target(target) => {
                        let valid = target.filter(|state| *state < MAX_POWER_STATES as u64);
                        let state = valid.ok_or_else(|| {
                            NoPrintedTable::on_line(
                                index,
                                "expected a power state, 0 to 31, after (ITPS)",
                            )
                        })?;
                        let ms = time.take().ok_or_else(|| {
                            NoPrintedTable::on_line(
                                index,
                                "a target (ITPS) without its time (ITPT)",
                            )
                        })?;
                        let slot = entries.get_mut(next).ok_or_else(|| {
                            NoPrintedTable::on_line(index, "an entry that is not one of 0 to 31")
                        })?;
                        let entry = ms << 8 | state << 3;
                        if slot.replace(entry).is_some_and(|known| known != entry) {
                            return Err(NoPrintedTable::on_line(
                                index,
                                format!(
                                    "entry {next} is there a second time, with other values: give one table"
                                ),
                            ));
                        }
                        next += 1;
                    }
                }
            }
        }
        if entries.iter().all(Option::is_none) {
            return Err(NoPrintedTable::about_whole_text(format!(
                "no entry of an APST table; {FORMS}"
            )));
        }
        Ok(Self {
            table: ApstTable(entries.map(Option::unwrap_or_default)),
            enabled: find_feature_state(lines),
            missing: entries.iter().filter(|entry| entry.is_none()).count(),
        })
    }
}

impl NoPrintedTable {
    /// An error on the printed line with this index, from 0.
    fn on_line(line_index: usize, problem: impl Into<String>) -> Self {
        Self {
            line: Some(line_index + 1),
            problem: problem.into(),
        }
    }

    /// An error about the printed text as a whole.
    fn about_whole_text(problem: String) -> Self {
        Self {
            line: None,
            problem,
        }
    }
}

/// Part of a printed APST entry: its number, time or target.
enum Word {
    Entry(Option<usize>),
    Time(Option<u64>),
    Target(Option<u64>),
}

/// Parts of printed APST entries on a line, in order: a line of text has one part, a line of JSON
/// may have all.
fn find_entry_parts(line: &str) -> Vec<Word> {
    type WordReader = fn(&str) -> Word;
    let marks: [(&str, WordReader); 4] = [
        ("Entry[", |rest| {
            Word::Entry(parse_leading_number(rest).map(|n| n as usize))
        }),
        ("\"entry\"", |rest| {
            Word::Entry(parse_leading_number(rest).map(|n| n as usize))
        }),
        ("(ITPT)", |rest| Word::Time(parse_leading_number(rest))),
        ("(ITPS)", |rest| Word::Target(parse_leading_number(rest))),
    ];
    let mut found: Vec<(usize, Word)> = Vec::new();
    for (mark, word) in marks {
        let places = line.match_indices(mark);
        found.extend(places.map(|(at, _)| (at, word(&line[at + mark.len()..]))));
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, word)| word).collect()
}

/// Reads the number that a text begins with, after blanks, colons, quotes and equal signs at most.
fn parse_leading_number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || ":\"=".contains(c));
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Whether the printed lines say that the APST feature is on: in words, or else by its value.
fn find_feature_state(lines: &[&str]) -> Option<bool> {
    const VALUE: &str = "(Autonomous Power State Transition), Current value:";
    let in_words = lines.iter().find_map(|line| line.split_once("(APSTE)"));
    if let Some((_, state)) = in_words {
        return Some(!state.contains("Disabled"));
    }
    let (_, value) = lines.iter().find_map(|line| line.split_once(VALUE))?;
    let digits = value.trim().trim_start_matches("0x");
    let end = digits
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(digits.len());
    Some(u64::from_str_radix(&digits[..end], 16).ok()? & 1 != 0)
}

/// Reads the bytes of a hexadecimal dump. Without offsets, the dump must be a whole table; with
/// offsets, it may be the first entries.
fn parse_hex_dump(lines: &[&str]) -> Result<Vec<u8>, NoPrintedTable> {
    // A dump with offsets also has columns of text and headings; a dump without offsets has digits
    // only.
    let with_offsets = lines.iter().any(|line| parse_dump_row(line).is_some());
    let mut nibbles: Vec<u32> = Vec::with_capacity(2 * TABLE_BYTES);
    // In a dump, `*` stands for rows like the one before.
    let mut repeats = false;
    for (index, line) in lines.iter().enumerate() {
        if with_offsets {
            // A `*` before the first whole row of a dump repeats nothing.
            repeats |= *line == "*" && nibbles.len() >= ROW_NIBBLES;
            let Some((offsets, digits)) = parse_dump_row(line) else {
                continue;
            };
            while repeats
                && !offsets.contains(&(nibbles.len() / 2))
                && nibbles.len() < 2 * TABLE_BYTES
            {
                nibbles.extend_from_within(nibbles.len() - ROW_NIBBLES..);
            }
            repeats = false;
            if !offsets.contains(&(nibbles.len() / 2)) {
                return Err(NoPrintedTable::on_line(
                    index,
                    format!(
                        "offset {:#x}, expected {:#x}",
                        offsets[0],
                        nibbles.len() / 2
                    ),
                ));
            }
            nibbles.extend(digits);
        } else {
            for (column, c) in line.chars().enumerate().filter(|(_, c)| !c.is_whitespace()) {
                let digit = c.to_digit(16).ok_or_else(|| {
                    let column = column + 1;
                    NoPrintedTable::on_line(
                        index,
                        format!("column {column}: {c:?} is no hexadecimal digit; {FORMS}"),
                    )
                })?;
                nibbles.push(digit);
            }
        }
    }
    // A dump may leave out rows at the end, as tables in words may leave out entries.
    let has_first_entries = with_offsets
        && (2 * ENTRY_BYTES..2 * TABLE_BYTES).contains(&nibbles.len())
        && nibbles.len().is_multiple_of(2 * ENTRY_BYTES);
    if nibbles.len() != 2 * TABLE_BYTES && !has_first_entries {
        return Err(NoPrintedTable::about_whole_text(format!(
            "{} hexadecimal digits, expected the {} of an APST table; {FORMS}",
            nibbles.len(),
            2 * TABLE_BYTES
        )));
    }
    Ok(nibbles
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect())
}

/// Reads an offset of at least so many digits both as hexadecimal and as octal.
fn parse_hex_and_octal_offset(text: &str, least_digits: usize) -> Option<[usize; 2]> {
    if text.len() < least_digits || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let hexadecimal = usize::from_str_radix(text, 16).ok()?;
    let octal = usize::from_str_radix(text, 8).unwrap_or(hexadecimal);
    Some([hexadecimal, octal])
}

/// Whether a byte can occur in ASCII or UTF-8 text.
fn is_text_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace() || byte >= 0x80
}

/// Reads a dump's row as its two possible offsets and its digits: `0010: 18 64 ...` from nvme-cli
/// and xxd, `00000010  18 64 ... |..|` from hexdump and od. od counts in octal, so an offset has
/// two readings.
fn parse_dump_row(line: &str) -> Option<([usize; 2], Vec<u32>)> {
    if let Some((at, rest)) = line.split_once(": ") {
        let digits = rest.chars().filter(|c| *c != ' ').take(ROW_NIBBLES);
        let [at, _] = parse_hex_and_octal_offset(at, 4)?;
        return Some(([at; 2], digits.map_while(|c| c.to_digit(16)).collect()));
    }
    let mut parts = line.split_whitespace();
    let at = parse_hex_and_octal_offset(parts.next()?, 6)?;
    let bytes: Vec<&str> = parts.take_while(|part| part.len() == 2).take(16).collect();
    let digits = bytes
        .concat()
        .chars()
        .map(|c| c.to_digit(16))
        .collect::<Option<Vec<u32>>>()?;
    (!digits.is_empty()).then_some((at, digits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: impl AsRef<[u8]>) -> Vec<u8> {
        let found = PrintedTable::parse(text.as_ref());
        let found =
            found.unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(text.as_ref())));
        found.table.to_bytes().to_vec()
    }

    fn error(text: &str) -> String {
        PrintedTable::parse(text.as_bytes())
            .unwrap_err()
            .to_string()
    }

    /// The bytes from 0 to 255, 16 on a line, each line written by a function of offset and pairs of digits.
    fn dump(line: &dyn Fn(usize, Vec<String>) -> String) -> String {
        let offsets = (0..256).step_by(16);
        offsets
            .map(|offset| {
                let bytes = offset..offset + 16;
                line(offset, bytes.map(|byte| format!("{byte:02X}")).collect())
            })
            .collect()
    }

    #[test]
    fn dumps_of_every_kind_are_the_same_bytes() {
        let table = (0..=255_u8).collect::<Vec<_>>();
        let plain = dump(&|_, pairs| pairs.concat());
        let lines = dump(&|_, pairs| pairs.concat() + "\r\n");
        let xxd = dump(&|at, pairs| format!("{at:08x}: {}  abcdef.\n", pairs.concat()));
        let hexdump = dump(&|at, pairs| format!("{at:08x}  {}  |abcdef.|\n", pairs.join(" ")));
        let od = dump(&|at, pairs| format!("{at:07o} {}\n", pairs.join(" ")));
        let nvme = "get-feature:0x0c (Autonomous), Current value:0x00000001\n".to_owned()
            + "       0  1  2  3\n"
            + &dump(&|at, pairs| format!("{at:04x}: {} \"abc\"\n", pairs.join(" ")));
        let quoted = nvme
            .lines()
            .map(|line| format!("> > {line}\n"))
            .collect::<Vec<String>>()
            .concat();
        for text in [&plain, &lines, &xxd, &hexdump, &od, &nvme, &quoted] {
            assert_eq!(bytes(text), table, "{text}");
        }
        assert_eq!(bytes(&table), table);
        let first = [0x18, 0x64, 0, 0, 0, 0, 0, 0];
        let squeezed = "00000000  18 64 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |.d|\n\
            00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |..|\n*\n\
            000000f0  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 01  |..|\n00000100\n";
        let expected = [&first[..], &[0; 247], &[1]].concat();
        assert_eq!(bytes(squeezed), expected);
    }

    const WORDS: &str = "\
get-feature:0x0c (Autonomous Power State Transition), Current value:0x00000001
\tAutonomous Power State Transition Enable (APSTE): Enabled
\tAuto PST Entries\t.................
\tEntry[ 0]   
\t.................
\tIdle Time Prior to Transition (ITPT): 100 ms
\tIdle Transition Power State   (ITPS): 3
\t.................
\tEntry[ 3]   
\t.................
\tIdle Time Prior to Transition (ITPT): 1250 ms
\tIdle Transition Power State   (ITPS): 4
\t.................
";

    #[test]
    fn the_words_of_nvme_cli_are_a_table() {
        let found = PrintedTable::parse(WORDS.as_bytes()).unwrap();
        assert_eq!((found.enabled, found.missing), (Some(true), 30));
        assert_eq!(found.table.0[0], 100 << 8 | 3 << 3);
        assert_eq!(found.table.0[3], 1250 << 8 | 4 << 3);
        let json = r#"{"Autonomous Power State Transition Enable (APSTE)":"Enabled","Auto PST Entries":[
            {"entry":" 0","Idle Time Prior to Transition (ITPT)":"100 ms","Idle Transition Power State (ITPS)":3},
            {"entry":" 3","Idle Time Prior to Transition (ITPT)":"1250 ms","Idle Transition Power State (ITPS)":4}]}"#;
        let quoted = WORDS
            .lines()
            .map(|line| format!("> {line}\n"))
            .collect::<Vec<String>>()
            .concat();
        let newer = WORDS
            .replace("(ITPT):", "(ITPT) :")
            .replace("   (ITPS):", " (ITPS) :");
        for text in [json, &quoted, &newer, &WORDS.repeat(2)] {
            assert_eq!(
                PrintedTable::parse(text.as_bytes()).unwrap(),
                found,
                "{text}"
            );
        }
        let off = WORDS.replace("Enabled", "Disabled");
        assert_eq!(
            PrintedTable::parse(off.as_bytes()).unwrap().enabled,
            Some(false)
        );
        let two = format!("{WORDS}{}", WORDS.replace("1250", "2000"));
        assert!(
            error(&two).contains("entry 3 is there a second time"),
            "{}",
            error(&two)
        );
        assert!(error(&WORDS.replace("1250", "-")).starts_with("line 11: expected milliseconds"));
        assert!(
            error(&WORDS.replace(": 4", ": 32")).starts_with("line 12: expected a power state")
        );
    }

    #[test]
    fn rows_at_the_end_may_be_left_out() {
        let rows = "0000: 18 64 00 00 00 00 00 00 20 d0 07 00 00 00 00 00 \".d..\"\n";
        let printed = PrintedTable::parse(rows.as_bytes()).unwrap();
        assert_eq!(printed.missing, 30);
        assert_eq!(printed.table.0[..3], [0x6418, 0x7_d020, 0]);
    }

    #[test]
    fn damaged_dumps_are_named() {
        assert!(error("00\n0g").starts_with("line 2: column 2: 'g' is no hexadecimal digit"));
        assert!(
            error("0011").starts_with("4 hexadecimal digits, expected the 512 of an APST table")
        );
        assert_eq!(
            error("0000: 00 11\n0010: 00 11\n"),
            "line 2: offset 0x10, expected 0x2"
        );
        assert_eq!(
            error("*\n0030: 00 11\n"),
            "line 2: offset 0x30, expected 0x0"
        );
        let foreign = error("hello");
        assert!(
            foreign.contains("`nvme get-feature -f 0x0c` prints (with -H"),
            "{foreign}"
        );
    }

    proptest! {
        #[test]
        fn no_input_panics(data in prop::collection::vec(any::<u8>(), 0..600), at in 0..WORDS.len(), with in "\\PC{0,4}") {
            let _ = PrintedTable::parse(&data);
            let damaged = format!("{}{with}{}", &WORDS[..at], &WORDS[at..]);
            let _ = PrintedTable::parse(damaged.as_bytes());
        }
    }
}
