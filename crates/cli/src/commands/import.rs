//! `wakepath import`: recordings from other tools' traces.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use wakepath_trace::import::{ImportOptions, Imported, import_file};
use wakepath_trace::recording::{Metadata, Overwrite, Warning, Writer, unfinished_tail_path};
use wakepath_units::TickRate;

use super::arguments;
use crate::input::means_standard_input;
use crate::messages::warning;
use crate::new_file;
use crate::output::{self, Format, Screen};
use crate::until;
use crate::waiting::{ProgressLog, ProgressReporter};

/// Make a recording of traces that other tools made.
///
/// It takes `trace.dat` of trace-cmd, `perf.data`, the text of `trace-cmd report`, `perf script` and
/// tracefs, and recordings that were not finished. Of several files, given in the order of time, it
/// makes one recording. It prints how many events of each kind the files have.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  trace-cmd record -C mono -e power:cpu_idle -e sched:sched_switch -e sched:sched_waking \\
      -e timer -e block:block_rq_issue -e block:block_rq_complete sleep 10
  wakepath import trace.dat -o load.parquet
  wakepath import perf.data -o load.parquet --hz 250 --force")]
pub(crate) struct Args {
    /// The traces; `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The recording to write.
    #[arg(short, long, value_name = "OUT.parquet")]
    output: PathBuf,
    /// Replace the recording if it is there already.
    #[arg(long)]
    force: bool,
    /// Ticks per second (CONFIG_HZ) of the machine that was traced, if its timer events do not show it.
    #[arg(long, value_name = "HZ", value_parser = arguments::parse_tick_rate)]
    hz: Option<TickRate>,
    /// Make one recording of files even if they are of different machines.
    #[arg(long)]
    any_machine: bool,
    /// How to print the summary.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct ImportSummary {
    files: Vec<FileSummary>,
    recorded_events: u64,
    lost_events: u64,
    warnings: Vec<Warning>,
}

#[derive(Serialize)]
struct FileSummary {
    file: String,
    source: String,
    events: u64,
    by_name: Vec<(String, u64)>,
}

impl FileSummary {
    fn new(path: &Path, imported: Imported) -> Self {
        Self {
            file: path.display().to_string(),
            source: imported.source,
            events: imported.counts.iter().map(|(_, count)| count).sum(),
            by_name: imported.counts,
        }
    }
}

pub(crate) fn import_traces_as_recording(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    new_file::check_output_may_be_written(&args.output, args.force)
        .with_context(|| args.output.display().to_string())?;
    // A recording that is to be replaced must survive a failed import.
    let output = new_file::resolve_links_if_present(&args.output);
    let folder = new_file::parent_folder(&output);
    let unfinished = tempfile::Builder::new()
        .prefix(".wakepath-")
        .tempdir_in(folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    let leftover = unfinished.path().to_owned();
    // If the folder with spooled pipes cannot be removed, the import still counts.
    until::clean_up_before_signal_ends_program(move || drop(fs::remove_dir_all(leftover)))?;
    let fresh = unfinished.path().join("new.parquet");
    let mut writer = Writer::create(&fresh, Overwrite::No, Metadata::default())?;
    let files = import_files_in_order(args, &mut writer, unfinished.path())?;
    ensure!(
        writer.count_added_events() > 0,
        "{}; nothing was written",
        explain_empty_import(&files, writer.metadata_mut())
    );
    let metadata = writer.metadata_mut();
    let (lost_events, warnings) = (metadata.lost_events, metadata.warnings.clone());
    let recorded_events = writer.finish_and_count_events()?;
    fs::rename(&fresh, &output).with_context(|| format!("cannot write {}", output.display()))?;
    remove_recording_tail_if_present(&output)?;
    for warning in &warnings {
        warning!("{} ({}x): {}", warning.name, warning.count, warning.text);
    }
    let summary = ImportSummary {
        files,
        recorded_events,
        lost_events,
        warnings,
    };
    print_import_summary(&summary, args.format, out)
}

/// Imports files one after the other, with a progress bar for each; pipes are spooled into `spool_folder` first.
fn import_files_in_order(
    args: &Args,
    writer: &mut Writer,
    spool_folder: &Path,
) -> anyhow::Result<Vec<FileSummary>> {
    let options = ImportOptions {
        hz: args.hz,
        any_machine: args.any_machine,
    };
    let mut files = Vec::new();
    // A trace does not tell how many events it has, so progress has no total.
    let reporter = ProgressReporter::from_environment(0)?;
    let events_read = Arc::new(AtomicUsize::new(0));
    let _in_log = ProgressLog::start_unless_terminal(Arc::clone(&events_read), None, "events");
    let mut before = 0;
    for path in &args.files {
        let spooled = spool_if_own_pipe(path, spool_folder)
            .with_context(|| format!("{}: cannot be kept while it is read", path.display()))?;
        let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template(
            "{spinner} {human_pos} events, {per_sec}",
        )?);
        let file = spooled.as_ref().unwrap_or(path);
        let imported = import_file(file, writer, options, &mut |events| {
            bar.set_position(events);
            reporter.report_done_parts(before + events);
            let all = usize::try_from(before + events).unwrap_or(usize::MAX);
            events_read.store(all, Ordering::Relaxed);
        })?;
        bar.finish_and_clear();
        let summary = FileSummary::new(path, imported);
        before += summary.events;
        reporter.report_done_parts(before);
        files.push(summary);
    }
    Ok(files)
}

/// Removes what a killed recorder left beside its file: it does not belong to the new recording.
fn remove_recording_tail_if_present(recording: &Path) -> anyhow::Result<()> {
    let tail = unfinished_tail_path(recording);
    match fs::remove_file(&tail) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| tail.display().to_string())
        }
        _ => Ok(()),
    }
}

/// Explains why files that have events gave no recording.
fn explain_empty_import(files: &[FileSummary], metadata: &Metadata) -> String {
    let events: u64 = files.iter().map(|file| file.events).sum();
    let why: Vec<&str> = metadata.warnings.iter().map(|w| w.text.as_str()).collect();
    let why = match why[..] {
        [] => "no idle period is complete: idle states are entered and never left".to_owned(),
        _ => why.join("; "),
    };
    format!("no idle period and no other event for a recording in {events} events ({why})")
}

/// Copies a pipe into a file in `folder`, because formats are not read from front to back; `None` for regular files.
/// Shell pipes are accepted, other processes' FIFOs are refused.
fn spool_if_own_pipe(path: &Path, folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let is_own = ["/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|fds| path.starts_with(fds));
    let mut input: Box<dyn Read> = if means_standard_input(path) {
        Box::new(io::stdin())
    } else if is_own && fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        Box::new(File::open(path)?)
    } else {
        return Ok(None);
    };
    let spooled = folder.join("standard input");
    io::copy(&mut input, &mut File::create(&spooled)?)?;
    Ok(Some(spooled))
}

fn print_import_summary(
    summary: &ImportSummary,
    format: Format,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let header = ["file", "event", "count"];
    let rows = summary.files.iter().flat_map(|file| {
        let all = ("(all)".to_owned(), file.events);
        file.by_name
            .iter()
            .cloned()
            .chain([all])
            .map(|(name, count)| [file.file.clone(), name, count.to_string()])
    });
    match format {
        Format::Json => output::write_json(out, summary),
        Format::Csv => output::write_csv(out, header, rows),
        Format::Table => {
            output::write_table(out, header, rows)?;
            let sources: Vec<&str> = summary.files.iter().map(|f| f.source.as_str()).collect();
            writeln!(
                out,
                "{}: {} recorded, {} lost",
                sources.join("; "),
                output::count_with_noun(summary.recorded_events, "event"),
                summary.lost_events
            )?;
            Ok(())
        }
    }
}
