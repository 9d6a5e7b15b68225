//! `wakepath apst`: plans and decodes tables of autonomous power state transitions.

use crate::output::Screen;

mod decode;
mod entries;
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
