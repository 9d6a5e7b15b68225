//! What experiments have in common: the file for their figures, their plan and their notes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use wakepath_measure::{ExperimentControl, MeasureError, TestFileSize};
use wakepath_units::quantity;

use crate::messages::{note, tell};
use crate::new_file;
use crate::output::{self, Format, Screen};
use crate::{until, waiting};

/// Where measured figures go.
#[derive(clap::Args)]
pub(super) struct OutputArgs {
    /// Write the measured figures as a part of a machine file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

impl OutputArgs {
    /// Checks before the experiment that the file for its figures can be written.
    pub(super) fn check_output_may_be_written(&self) -> anyhow::Result<()> {
        let Some(path) = &self.output else {
            return Ok(());
        };
        check_result_file(path, self.force)
    }

    /// Writes the figures.
    pub(super) fn write_figures(&self, text: &str) -> anyhow::Result<()> {
        let Some(path) = &self.output else {
            return Ok(());
        };
        write_result_file(path, self.force, text).with_context(|| path.display().to_string())?;
        tell!("measured figures are in {}", path.display());
        Ok(())
    }
}

/// Checks before an experiment that its result can be written to `path`.
pub(in crate::commands) fn check_result_file(path: &Path, force: bool) -> anyhow::Result<()> {
    new_file::check_output_may_be_written(path, force)
        .with_context(|| path.display().to_string())?;
    let folder = new_file::parent_folder(path);
    // Written to a file without a name, which is gone when closed.
    tempfile::tempfile_in(folder)
        .with_context(|| format!("{}: nothing can be written there", folder.display()))?;
    Ok(())
}

pub(in crate::commands) fn write_result_file(
    path: &Path,
    force: bool,
    text: &str,
) -> anyhow::Result<()> {
    use std::io::Write as _;
    new_file::write_whole_file(path, force, |mut file| Ok(file.write_all(text.as_bytes())?))
}

/// What an experiment would do: its plan.
#[derive(Serialize)]
pub(in crate::commands) struct PlanReport {
    dry_run: bool,
    steps: usize,
    seconds: f64,
    bytes_to_fill: u64,
    most_bytes_written: u64,
    does: Vec<String>,
}

impl PlanReport {
    /// A plan for an experiment that writes nothing.
    pub(in crate::commands) fn new(steps: usize, duration: Duration, does: Vec<String>) -> Self {
        Self {
            dry_run: true,
            steps,
            seconds: duration.as_secs_f64(),
            bytes_to_fill: 0,
            most_bytes_written: 0,
            does,
        }
    }

    /// The plan with the number of bytes that the experiment writes: into new files first, and at most in total.
    pub(in crate::commands) fn with_bytes_written(
        self,
        bytes_to_fill: u64,
        most_bytes_written: u64,
    ) -> Self {
        Self {
            bytes_to_fill,
            most_bytes_written,
            ..self
        }
    }

    /// Announces what the experiment will do and how long it takes, then carries it out, with its steps counted on a
    /// terminal. `beyond`: what comes on top of the time, as in ", and the time to fill the file".
    pub(in crate::commands) fn announce_and_carry_out<T: Send>(
        &self,
        beyond: &str,
        experiment: impl FnOnce(&(dyn Fn(usize) + Sync), &AtomicBool) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        tell!("{}", self.announcement(beyond));
        waiting::run_with_progress(
            waiting::ThreadCount::single_thread(),
            self.steps,
            "steps",
            experiment,
        )
    }

    /// Announces a measurement and carries it out, as [`Self::announce_and_carry_out`] does.
    pub(super) fn announce_and_measure<T: Send>(
        &self,
        beyond: &str,
        measure: impl FnOnce(ExperimentControl<'_>) -> Result<T, MeasureError> + Send,
    ) -> anyhow::Result<T> {
        self.announce_and_carry_out(beyond, |finished, cancelled| {
            Ok(measure(ExperimentControl::new(finished, cancelled))?)
        })
    }

    fn announcement(&self, beyond: &str) -> String {
        let mut text = String::new();
        for line in &self.does {
            let _ = writeln!(text, "{line}");
        }
        let seconds = until::duration_in_words(self.seconds);
        let _ = write!(
            text,
            "takes about {seconds}{beyond}; Ctrl-C ends it and puts everything back"
        );
        text
    }

    pub(in crate::commands) fn print_plan(
        self,
        format: Format,
        out: &mut Screen,
    ) -> anyhow::Result<()> {
        match format {
            Format::Json => output::write_json(out, &self),
            Format::Csv => {
                output::write_csv(out, ["does"], self.does.into_iter().map(|line| [line]))
            }
            Format::Table => {
                for line in &self.does {
                    out.write_folded(line, 2)?;
                }
                let seconds = until::duration_in_words(self.seconds);
                writeln!(out, "takes about {seconds} in {} steps", self.steps)?;
                Ok(())
            }
        }
    }
}

/// Prints an experiment's notes.
pub(in crate::commands) fn print_notes(notes: &[String]) {
    for text in notes {
        note!("{text}");
    }
}

/// The size of so many test files in a folder: as named, or by the free space; a sentence says how it was chosen.
pub(in crate::commands) fn choose_size(
    named: Option<u64>,
    folder: &Path,
    files: u64,
) -> anyhow::Result<(u64, Option<String>)> {
    if let Some(bytes) = named {
        return Ok((bytes, None));
    }
    let chosen = TestFileSize::choose(folder, files)?;
    Ok((chosen.bytes, Some(chosen.reason)))
}

/// Parses whole MiB such as `256m` or `4g`.
pub(in crate::commands) fn parse_mebibytes(text: &str) -> anyhow::Result<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &lower[number.len()..];
    let mib = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "m" => Some(1_u64),
        "g" => Some(1 << 10),
        "t" => Some(1 << 20),
        _ => None,
    };
    let size = quantity::parse_whole_number(number)
        .zip(mib)
        .and_then(|(number, mib)| number.checked_mul(mib)?.checked_mul(1 << 20));
    size.ok_or_else(|| anyhow::anyhow!("expected a size such as 256m or 4g"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_mebibytes("256m").unwrap(), 256 << 20);
        assert_eq!(parse_mebibytes("4GiB").unwrap(), 4 << 30);
        for bad in ["", "m", "12", "-1g", "1.5g", "99999999999999t", "4 parsecs"] {
            assert!(parse_mebibytes(bad).is_err(), "{bad}");
        }
    }
}
