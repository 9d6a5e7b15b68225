//! `wakepath measure`: what this machine's hardware takes, by experiment.

mod drive;
mod wake;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use serde::Serialize;

use crate::messages::{note, tell};
use crate::new_file;
use crate::output::{self, Format, Screen};
use crate::until;

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

/// Where measured figures go.
#[derive(clap::Args)]
struct OutputArgs {
    /// Write the measured figures as a part of a machine file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

impl OutputArgs {
    /// Checks the file before anything is measured for it.
    fn check(&self) -> anyhow::Result<()> {
        let Some(path) = &self.output else {
            return Ok(());
        };
        new_file::check(path, self.force).with_context(|| path.display().to_string())
    }

    /// Writes the figures.
    fn write(&self, text: &str) -> anyhow::Result<()> {
        let Some(path) = &self.output else {
            return Ok(());
        };
        write_text(path, self.force, text).with_context(|| path.display().to_string())?;
        tell!("measured figures are in {}", path.display());
        Ok(())
    }
}

fn write_text(path: &Path, force: bool, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    new_file::write(path, force, |mut file| Ok(file.write_all(text.as_bytes())?))
}

/// What an experiment would do.
#[derive(Serialize)]
struct PlanReport {
    dry_run: bool,
    steps: usize,
    seconds: f64,
    bytes_to_fill: u64,
    most_bytes_written: u64,
    does: Vec<String>,
}

impl PlanReport {
    fn print(self, format: Format, out: &mut Screen) -> anyhow::Result<()> {
        match format {
            Format::Json => output::json(out, &self),
            Format::Csv => output::csv(out, ["does"], self.does.into_iter().map(|line| [line])),
            Format::Table => {
                for line in &self.does {
                    out.prose(line, 2)?;
                }
                let seconds = until::in_words(self.seconds);
                writeln!(out, "takes about {seconds} in {} steps", self.steps)?;
                Ok(())
            }
        }
    }
}

/// Says what an experiment will do and how long that takes.
fn announce(lines: &[String], time: Duration, beyond: &str) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    let seconds = until::in_words(time.as_secs_f64());
    let _ = write!(
        text,
        "takes about {seconds}{beyond}; Ctrl-C ends it and puts everything back"
    );
    text
}

/// Notes of an experiment.
fn print_notes(notes: &[String]) {
    for text in notes {
        note!("{text}");
    }
}
