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
    Plan(plan::ApstPlanArgs),
    /// What a table says.
    Decode(decode::Args),
}

pub(crate) fn run_apst_command(args: Args, out: &mut Screen) -> anyhow::Result<()> {
    match args.verb {
        Verb::Plan(args) => plan::print_planned_apst_table(&args, out),
        Verb::Decode(args) => decode::print_decoded_apst_table(&args, out),
    }
}
