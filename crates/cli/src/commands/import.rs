//! `wakepath import`: recordings from what other tools recorded.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use wakepath_trace::import::{Imported, Options, import_file};
use wakepath_trace::recording::{Metadata, Overwrite, Warning, Writer};
use wakepath_units::TickRate;

use crate::output::{self, Format};

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
    /// The traces.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The recording to write.
    #[arg(short, long, value_name = "OUT.parquet")]
    output: PathBuf,
    /// Replace the recording if it is there already.
    #[arg(long)]
    force: bool,
    /// Ticks per second (CONFIG_HZ) of the machine that was traced, which traces do not say.
    #[arg(long, value_name = "HZ", value_parser = super::parse_hz)]
    hz: Option<TickRate>,
    /// How to print the summary.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Summary {
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

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.force || !args.output.exists(),
        "{} exists already; give another name, or --force to replace it",
        args.output.display()
    );
    // A recording that is replaced must not be lost when the new one fails.
    let folder = match args.output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let unfinished = tempfile::tempdir_in(folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    let fresh = unfinished.path().join("new.parquet");
    let mut writer = Writer::create(&fresh, Overwrite::No, Metadata::default())?;
    let options = Options { hz: args.hz };
    let mut files = Vec::new();
    for path in &args.files {
        let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template(
            "{spinner} {human_pos} events, {per_sec}",
        )?);
        let mut progress = |events| bar.set_position(events);
        let imported = import_file(path, &mut writer, options, &mut progress)?;
        bar.finish_and_clear();
        files.push(summarise(path, imported));
    }
    let metadata = writer.metadata_mut();
    let (lost_events, warnings) = (metadata.lost_events, metadata.warnings.clone());
    let recorded_events = writer.finish()?;
    std::fs::rename(&fresh, &args.output)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    for warning in &warnings {
        eprintln!(
            "wakepath: warning: {} ({}x): {}",
            warning.name, warning.count, warning.text
        );
    }
    let summary = Summary {
        files,
        recorded_events,
        lost_events,
        warnings,
    };
    print(&summary, args.format, out)
}

fn summarise(path: &Path, imported: Imported) -> FileSummary {
    FileSummary {
        file: path.display().to_string(),
        source: imported.source,
        events: imported.counts.iter().map(|(_, count)| count).sum(),
        by_name: imported.counts,
    }
}

fn print(summary: &Summary, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
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
        Format::Json => output::json(out, summary),
        Format::Csv => output::csv(out, header, rows),
        Format::Table => {
            output::table(out, header, rows)?;
            let sources: Vec<&str> = summary.files.iter().map(|f| f.source.as_str()).collect();
            writeln!(
                out,
                "{}: {} events recorded, {} lost",
                sources.join("; "),
                summary.recorded_events,
                summary.lost_events
            )?;
            Ok(())
        }
    }
}
