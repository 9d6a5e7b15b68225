//! `wakepath apst`: plans and decodes tables of autonomous power state transitions.

use serde::Serialize;
use wakepath_policies::apst::ApstTable;

use crate::output::Screen;

mod decode;
mod plan;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// The table that the kernel would program into a drive, and why.
    Plan(plan::Args),
    /// What a table says.
    Decode(decode::Args),
}

pub(crate) fn run(args: Args, out: &mut Screen) -> anyhow::Result<()> {
    match args.verb {
        Verb::Plan(args) => plan::run(&args, out),
        Verb::Decode(args) => decode::run(&args, out),
    }
}

/// One entry of a table, for programs. A state without a transition has neither target nor time.
#[derive(Serialize)]
struct Entry {
    state: u8,
    target: Option<u8>,
    timeout_ms: Option<u32>,
}

/// The entries of the first `count` states.
fn entries(table: &ApstTable, count: usize) -> Vec<Entry> {
    table
        .entries()
        .zip(table.0)
        .take(count)
        .map(|(entry, raw)| Entry {
            state: entry.state,
            target: (raw != 0).then_some(entry.target),
            timeout_ms: (raw != 0).then_some(entry.timeout_ms),
        })
        .collect()
}

impl Entry {
    /// For people. A drive takes a time of 0 as "no transition from this state".
    fn describe(&self) -> String {
        match (self.target, self.timeout_ms) {
            (Some(target), Some(0)) => format!("PS{target} after 0 ms: never"),
            (Some(target), Some(ms)) => format!("PS{target} after {ms} ms"),
            _ => "-".to_owned(),
        }
    }
}

/// 512 hexadecimal digits.
fn hex(table: &ApstTable) -> String {
    table.to_string().replace('\n', "")
}
