//! `wakepath machine capture`: a machine file for this machine, and its raw files.

mod counted_drive;
mod drive_of_disk;
mod recorded_drive;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;
use wakepath_system::System;
use wakepath_system::capture::class::MachineClass;
use wakepath_system::capture::{Capture, Missing, machine};

use super::RootArgs;
use crate::messages::note;
use crate::output::{self, Format, Screen};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath machine capture -o my-machine
  wakepath doctor --root my-machine
  wakepath sim workloads/iowait-rk3399.fio --machine my-machine/machine.toml
  wakepath machine capture > machine.toml
  wakepath machine capture --recording trace.parquet > machine.toml")]
pub(crate) struct CaptureArgs {
    /// Directory to make, with machine.toml, about.txt and every file that was read at its place; without
    /// it the machine file alone goes to standard output.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Name of the machine; without it that of the directory, or else of the processor.
    #[arg(long)]
    name: Option<String>,
    /// Write into a directory that is not empty; an older capture in it is removed.
    #[arg(long, requires = "output")]
    force: bool,
    /// Take the drive's service times from this recording, of 4 KiB requests that were alone in flight; without it they are
    /// those of the counters since boot, where these tell any.
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    #[command(flatten)]
    root: RootArgs,
    /// What to print about it.
    #[arg(long, value_enum, default_value_t, requires = "output")]
    format: Format,
}

impl CaptureArgs {
    /// The captured machine's name: as requested, else the directory's, else the processor's.
    fn choose_machine_name(&self, system: &System) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let given = self.output.as_deref().or(self.root.directory());
        let directory = given.and_then(Path::file_name);
        let name = match directory {
            Some(directory) => directory.to_string_lossy().into_owned(),
            None => MachineClass::read(system.root()).processor.name,
        };
        let plain = name.replace("(R)", "").replace("(TM)", "");
        let words: Vec<&str> = plain
            .split(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)))
            .filter(|word| !word.is_empty())
            .collect();
        match words.join("-").trim_start_matches('.') {
            "" => "captured".to_owned(),
            name => name.to_owned(),
        }
    }
}

/// JSON output.
#[derive(Serialize)]
struct CaptureReport<'a> {
    directory: String,
    files: usize,
    not_read: &'a [Missing],
    hidden: &'a [String],
    notes: &'a [String],
}

pub(crate) fn capture_machine(args: &CaptureArgs, out: &mut Screen) -> anyhow::Result<()> {
    let system = args.root.open_system()?;
    let (mut machine, mut notes) =
        machine::describe_machine(&system, &args.choose_machine_name(&system))?;
    notes.extend(match &args.recording {
        Some(path) => recorded_drive::take_recorded_figures(path, &system, &mut machine)
            .context("--recording")?,
        None => counted_drive::take_counted_figures(&system, &mut machine),
    });
    let text = machine.to_toml()?;
    let Some(directory) = &args.output else {
        for note in &notes {
            note!("{note}");
        }
        out.write_lines_unfolded(&text);
        return Ok(());
    };
    let shown = directory.display().to_string();
    let taken = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
    if taken && !args.force {
        bail!("{shown}: the directory is not empty; --force writes into it");
    }
    let capture = Capture::read(&system);
    fs::create_dir_all(directory).with_context(|| shown.clone())?;
    if taken {
        Capture::remove_older_capture(directory)?;
    }
    capture.write_into_folder(directory)?;
    let mut about = capture.describe_missing_and_hidden();
    for note in &notes {
        let _ = writeln!(about, "note: {note}");
    }
    Capture::write_machine_file_and_about(directory, [&text, &about])?;
    let report = CaptureReport {
        directory: shown,
        files: capture.files.len(),
        not_read: &capture.missing,
        hidden: &capture.hidden,
        notes: &notes,
    };
    print_capture_report(&report, args.format, out)
}

const HEADER: [&str; 2] = ["what", "about"];

fn label_and_text_row(what: &str, about: String) -> [String; 2] {
    [what.to_owned(), about]
}

fn print_capture_report(
    report: &CaptureReport,
    format: Format,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let mut rows = vec![
        label_and_text_row("directory", report.directory.clone()),
        label_and_text_row("files", report.files.to_string()),
    ];
    // One line per reason is printed, although each CPU and state has a file.
    let mut reasons: Vec<(&str, usize, &str)> = Vec::new();
    for missing in report.not_read {
        match reasons.iter_mut().find(|(why, ..)| *why == missing.why) {
            Some((_, count, _)) => *count += 1,
            None => reasons.push((&missing.why, 1, &missing.path)),
        }
    }
    for (why, count, first) in reasons {
        rows.push(label_and_text_row(
            "not read",
            format!("{count} file(s) such as /{first}: {why}"),
        ));
    }
    rows.extend(
        report
            .hidden
            .iter()
            .map(|text| label_and_text_row("hidden", text.clone())),
    );
    rows.extend(
        report
            .notes
            .iter()
            .map(|text| label_and_text_row("note", text.clone())),
    );
    match format {
        Format::Json => output::write_json(out, report),
        Format::Csv => output::write_csv(out, HEADER, &rows),
        Format::Table => output::write_table(out, HEADER, &rows),
    }
}
