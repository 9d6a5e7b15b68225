//! `wakepath results`: result directories as files.

use std::io::Write;
use std::path::PathBuf;

use wakepath_results::{Mode, merge};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Put shards together: byte for byte the results of the study in one piece.
    Merge(MergeArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath results merge my-study-sim-*-of-64 -o my-study-sim")]
struct MergeArgs {
    /// The directories of all shards, in any order.
    #[arg(required = true, value_name = "DIR")]
    shards: Vec<PathBuf>,
    /// Directory of the merged results.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace results that are there.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let Verb::Merge(args) = &args.verb;
    let mode = if args.force { Mode::Replace } else { Mode::New };
    let runs = merge(&args.shards, &args.output, mode)?;
    let dir = args.output.display();
    writeln!(
        out,
        "{runs} runs in {dir}; next: wakepath compare {dir}, wakepath report {dir} -o report.html"
    )?;
    Ok(())
}
