//! `wakepath apst decode`.

use serde::Serialize;
use wakepath_hardware::drive::MAX_POWER_STATES;
use wakepath_policies::apst::{ApstTable, TABLE_BYTES};

use super::{Entry, entries, hex};
use crate::input;
use crate::messages::note;
use crate::output::{self, Format, Screen};

/// A dump of 256 bytes is not longer, however it is spaced.
const MAX_TEXT: u64 = 1 << 16;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nvme get-feature /dev/nvme0 -f 0x0c -b | wakepath apst decode -
  wakepath apst decode apst.hex --npss 4 --format json")]
pub(super) struct Args {
    /// The 256 bytes of the feature, or a hexadecimal dump of them (`xxd`, `xxd -p`,
    /// `nvme get-feature`); - for standard input.
    file: String,
    /// The drive's last power state, to check the entries against.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    npss: Option<u8>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    entries: Vec<Entry>,
    problems: Vec<String>,
    table_hex: String,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let data = input::read(&args.file, MAX_TEXT)?;
    let name = input::name(&args.file);
    let bytes = bytes(&data).map_err(|what| anyhow::anyhow!("{name}{what}"))?;
    let table = ApstTable::from_bytes(&bytes).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
    let problems: Vec<_> = table
        .problems(args.npss)
        .iter()
        .map(ToString::to_string)
        .collect();
    let entries = entries(&table, MAX_POWER_STATES);
    match args.format {
        Format::Json => output::json(
            out,
            &Report {
                entries,
                problems,
                table_hex: hex(&table),
            },
        ),
        Format::Csv => {
            for problem in problems {
                note!("{problem}");
            }
            let text = |value: Option<String>| value.unwrap_or_default();
            output::csv(
                out,
                ["state", "target", "timeout_ms"],
                entries.iter().map(|e| {
                    [
                        e.state.to_string(),
                        text(e.target.map(|t| t.to_string())),
                        text(e.timeout_ms.map(|t| t.to_string())),
                    ]
                }),
            )
        }
        Format::Table => print_table(out, &entries, &problems),
    }
}

fn print_table(out: &mut Screen, entries: &[Entry], problems: &[String]) -> anyhow::Result<()> {
    let set: Vec<_> = entries.iter().filter(|e| e.target.is_some()).collect();
    if set.is_empty() {
        writeln!(out, "no transitions: every entry is 0")?;
    } else {
        output::table(
            out,
            ["state", "when idle, go to"],
            set.iter().map(|e| [format!("PS{}", e.state), e.describe()]),
        )?;
        let others = entries.len() - set.len();
        if others > 0 {
            writeln!(out, "\nno transition from the other {others}")?;
        }
    }
    for problem in problems {
        writeln!(out, "problem: {problem}")?;
    }
    Ok(())
}

/// The bytes of a binary file or of a hexadecimal dump. An error starts with its place.
fn bytes(data: &[u8]) -> Result<Vec<u8>, String> {
    let is_text = !data.is_empty()
        && data
            .iter()
            .all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    // A table has reserved bits, so that binary ones are no text.
    if !is_text {
        return Ok(data.to_vec());
    }
    let text = String::from_utf8_lossy(data);
    // Dumps with offsets also have columns of text and headings; without, all is digits.
    let with_offsets = text.lines().any(|l| after_offset(l).is_some());
    let mut nibbles = Vec::with_capacity(2 * TABLE_BYTES);
    for (number, line) in text.lines().enumerate() {
        let at = |what: String| format!(":{}: {what}", number + 1);
        if with_offsets {
            let Some((offset, rest)) = after_offset(line) else {
                continue;
            };
            if offset * 2 != nibbles.len() {
                return Err(at(format!(
                    "offset {offset:#x}, expected {:#x}",
                    nibbles.len() / 2
                )));
            }
            let digits = rest.chars().filter(|c| *c != ' ').take(32);
            nibbles.extend(digits.map_while(|c| c.to_digit(16)));
        } else {
            for (column, c) in line.chars().enumerate().filter(|(_, c)| !c.is_whitespace()) {
                let digit = c.to_digit(16).ok_or_else(|| {
                    at(format!(
                        "column {}: {c:?} is no hexadecimal digit",
                        column + 1
                    ))
                })?;
                nibbles.push(digit);
            }
        }
    }
    if nibbles.len() != 2 * TABLE_BYTES {
        return Err(format!(
            ": {} hexadecimal digits, expected the {} of an APST table",
            nibbles.len(),
            2 * TABLE_BYTES
        ));
    }
    Ok(nibbles
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect())
}

/// `0010: 18 64 ...` as its offset and what follows.
fn after_offset(line: &str) -> Option<(usize, &str)> {
    let (offset, rest) = line.split_once(": ")?;
    let is_offset = offset.len() >= 4 && offset.bytes().all(|b| b.is_ascii_hexdigit());
    is_offset.then(|| Some((usize::from_str_radix(offset, 16).ok()?, rest)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_of_every_kind_are_the_same_bytes() {
        let table = (0..=255_u8).collect::<Vec<_>>();
        let dump = |line: &dyn Fn(usize, Vec<String>) -> String| -> String {
            let pairs = |chunk: &[u8]| chunk.iter().map(|b| format!("{b:02X}")).collect();
            let lines = table.chunks(16).enumerate();
            lines.map(|(i, chunk)| line(16 * i, pairs(chunk))).collect()
        };
        let plain = dump(&|_, pairs| pairs.concat());
        let lines = dump(&|_, pairs| pairs.concat() + "\r\n");
        let xxd = dump(&|at, pairs| format!("{at:08x}: {}  abcdef.\n", pairs.concat()));
        let nvme = "get-feature:0x0c (Autonomous), Current value:0x00000001\n".to_owned()
            + "       0  1  2  3\n"
            + &dump(&|at, pairs| format!("{at:04x}: {} \"abc\"\n", pairs.join(" ")));
        for text in [&plain, &lines, &xxd, &nvme] {
            assert_eq!(bytes(text.as_bytes()), Ok(table.clone()), "{text}");
        }
        assert_eq!(bytes(&table), Ok(table.clone()));
    }

    #[test]
    fn damaged_dumps_are_named() {
        let error = |text: &str| bytes(text.as_bytes()).unwrap_err();
        assert_eq!(error("00\n0g"), ":2: column 2: 'g' is no hexadecimal digit");
        assert_eq!(
            error("0011"),
            ": 4 hexadecimal digits, expected the 512 of an APST table"
        );
        let gap = "0000: 00 11\n0010: 00 11\n";
        assert_eq!(error(gap), ":2: offset 0x10, expected 0x2");
        assert!(error("hello").starts_with(":1: column 1"));
    }
}
