//! `wakepath measure`: what this machine's hardware takes, by experiment.

mod drive;
pub(super) mod experiment;
mod wake;

use clap::Subcommand;

use crate::output::Screen;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: MeasureCommand,
}

#[derive(Subcommand)]
enum MeasureCommand {
    /// A drive: service times, requests side by side, flush, sleep.
    Drive(drive::Args),
    /// CPUs: what waking them from each idle state takes.
    Wake(wake::Args),
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    match &args.command {
        MeasureCommand::Drive(args) => drive::run(args, out),
        MeasureCommand::Wake(args) => wake::run(args, out),
    }
}
