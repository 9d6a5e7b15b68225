//! `wakepath apst decode`.

use serde::Serialize;
use wakepath_hardware::drive::MAX_POWER_STATES;
use wakepath_policies::apst::printed::PrintedTable;

use super::entries::{DecodedApstEntry, decode_entries_of_first_states, table_as_512_hex_digits};
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
    entries: Vec<DecodedApstEntry>,
    problems: Vec<String>,
    table_hex: String,
}

pub(super) fn print_decoded_apst_table(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let data = input::read_file_or_stdin(&args.file, MAX_TEXT)?;
    let name = input::describe_file_or_stdin(&args.file);
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
    let entries = decode_entries_of_first_states(&table, MAX_POWER_STATES);
    match args.format {
        Format::Json => output::write_json(
            out,
            &DecodedTable {
                apste: printed.enabled,
                entries,
                problems,
                table_hex: table_as_512_hex_digits(&table),
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
        Format::Table => print_transitions_and_problems(out, &entries, &problems),
    }
}

fn print_transitions_and_problems(
    out: &mut Screen,
    entries: &[DecodedApstEntry],
    problems: &[String],
) -> anyhow::Result<()> {
    let set: Vec<_> = entries.iter().filter(|e| e.target.is_some()).collect();
    if set.is_empty() {
        writeln!(out, "no transitions: every entry is 0")?;
    } else {
        output::write_table(
            out,
            ["state", "when idle, go to"],
            set.iter()
                .map(|e| [format!("PS{}", e.state), e.transition_in_words()]),
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
