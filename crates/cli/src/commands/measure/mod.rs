//! `wakepath measure`: what this machine's hardware takes, by experiment.

pub(super) mod background;
pub(super) mod drive;
pub(super) mod experiment;
mod followed_reads;
pub(super) mod page;
pub(super) mod path;
pub(super) mod power;
pub(super) mod wake;

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
    /// The I/O path: CPU time for a read, where completions arrive, context switch, system call, tick.
    Path(path::Args),
    /// The machine at rest: interrupts, soft interrupts and idle periods of each CPU by cause.
    Background(background::Args),
    /// Power: at rest, with busy CPUs, and in each idle state.
    Power(power::Args),
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    match &args.command {
        MeasureCommand::Drive(args) => drive::run(args, out),
        MeasureCommand::Wake(args) => wake::run(args, out),
        MeasureCommand::Path(args) => path::run(args, out),
        MeasureCommand::Background(args) => background::run(args, out),
        MeasureCommand::Power(args) => power::run(args, out),
    }
}
