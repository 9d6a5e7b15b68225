//! Shell completions and man pages, made from the same description of the command line as `--help`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::output::Screen;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath completions bash > ~/.local/share/bash-completion/completions/wakepath")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  wakepath man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// A directory, which is made if need be; files of the same name in it are replaced.
    directory: PathBuf,
}

pub(crate) fn write_completions(args: &CompletionsArgs, mut cli: Command, out: &mut Screen) {
    clap_complete::generate(args.shell, &mut cli, "wakepath", out.raw_bytes());
}

/// Writes a man page per command into a directory.
pub(crate) fn write_man_pages(args: &ManArgs, cli: Command) -> anyhow::Result<()> {
    fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(cli, &args.directory))
        .with_context(|| format!("cannot write man pages into {}", args.directory.display()))
}
