//! Filled in by the next commits.

use std::io::Write;

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _out: &mut impl Write) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
