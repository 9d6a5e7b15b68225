//! `wakepath apst decode`.

use serde::Serialize;
use wakepath_hardware::drive::MAX_POWER_STATES;
use wakepath_policies::apst::printed::PrintedTable;

use super::entries::{Entry, decode_first_entries, table_as_hex_lines};
use crate::input;
use crate::messages::note;
use crate::output::{self, Format, Screen};

/// Longest accepted text of a table, with any spacing and quoting.
const MAX_TEXT: u64 = 1 << 16;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nvme get-feature /dev/nvme0 -f 0x0c -H | wakepath apst decode -
  wakepath apst decode apst.hex --npss 4 --format json")]
pub(super) struct Args {
    /// What `nvme get-feature -f 0x0c` prints (with -H, -b, -o json, or plain), or a hexadecimal dump of the 256 bytes
    /// (`xxd`, `xxd -p`, `hexdump -C`); - for standard input.
    file: String,
    /// The drive's last power state, to check the entries against.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    npss: Option<u8>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct DecodedTable {
    /// Whether the feature is on; not known if it was not printed.
    apste: Option<bool>,
    entries: Vec<Entry>,
    problems: Vec<String>,
    table_hex: String,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let data = input::read_input(&args.file, MAX_TEXT)?;
    let name = input::describe_input_path(&args.file);
    let printed = PrintedTable::parse(&data).map_err(|e| match e.line {
        Some(line) => anyhow::anyhow!("{name}:{line}: {}", e.problem),
        None => anyhow::anyhow!("{name}: {}", e.problem),
    })?;
    let table = printed.table;
    if printed.missing > 0 {
        note!(
            "{} of the {MAX_POWER_STATES} entries are not in {name}, and count as no transition",
            printed.missing
        );
    }
    if printed.enabled == Some(false) {
        note!("the feature is off (APSTE 0): the drive does not follow this table");
    }
    let problems: Vec<_> = table
        .find_problems(args.npss)
        .iter()
        .map(ToString::to_string)
        .collect();
    let entries = decode_first_entries(&table, MAX_POWER_STATES);
    match args.format {
        Format::Json => output::write_json(
            out,
            &DecodedTable {
                apste: printed.enabled,
                entries,
                problems,
                table_hex: table_as_hex_lines(&table),
            },
        ),
        Format::Csv => {
            for problem in problems {
                note!("{problem}");
            }
            output::write_csv(
                out,
                ["state", "target", "timeout_ms"],
                entries.iter().map(|e| {
                    [
                        e.state.to_string(),
                        e.target.map(|t| t.to_string()).unwrap_or_default(),
                        e.timeout_ms.map(|t| t.to_string()).unwrap_or_default(),
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
        output::write_table(
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
