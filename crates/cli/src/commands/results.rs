//! `wakepath results`: result directories as files.

use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context;
use wakepath_report::perfetto;
use wakepath_results::laboratory;
use wakepath_results::question::is_empty_or_contains;
use wakepath_results::rows::TimelineRow;
use wakepath_results::timeline::Timeline;
use wakepath_results::{Better, METRICS, Mode, ResultReader, merge_shards};
use wakepath_units::spelling::suggestion_with_known_names;

use crate::new_file;
use crate::output::{self, PageFormat, Screen};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Put shards together: byte for byte the results of the study in one piece.
    Merge(MergeArgs),
    /// Put what the laboratory measured beside a simulation: a result directory of the same study.
    Laboratory(LaboratoryArgs),
    /// Write timelines of simulated results for Perfetto: a few milliseconds around a request of about the 99th percentile.
    Timeline(TimelineArgs),
    /// The metrics that wakepath knows: unit, which direction is better, meaning.
    Metrics(MetricsArgs),
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

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath results laboratory fidelity-sim runs.jsonl -o fidelity-lab")]
struct LaboratoryArgs {
    /// The directory of the same study, simulated.
    #[arg(value_name = "DIR")]
    simulated: PathBuf,
    /// What rig/lab.py wrote: a line of JSON for each run.
    #[arg(value_name = "RUNS")]
    measured: PathBuf,
    /// Directory of the results.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace results that are there.
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath results timeline idle-governor-sim -o all.pftrace
  wakepath results timeline idle-governor-sim --workload reads --policy teo --at p50 -o teo.pftrace")]
struct TimelineArgs {
    /// The directory of the results.
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Only this workload.
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Only this policy; give it again for more.
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// Around a request of about which latency: p50 or p99.
    #[arg(long, value_name = "AT", default_value = "p99")]
    at: String,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath results metrics
  wakepath results metrics --format csv")]
struct MetricsArgs {
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: PageFormat,
}

pub(crate) fn run_results_command(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    match &args.verb {
        Verb::Merge(args) => merge_shard_results(args, out),
        Verb::Laboratory(args) => import_laboratory_runs(args, out),
        Verb::Timeline(args) => write_selected_perfetto_trace(args, out),
        Verb::Metrics(args) => print_metric_dictionary(args.format, out),
    }
}

/// Prints the metric dictionary.
fn print_metric_dictionary(format: PageFormat, out: &mut Screen) -> anyhow::Result<()> {
    let header = ["metric", "title", "unit", "better", "meaning"];
    let rows = METRICS.iter().map(|metric| {
        let better = match metric.better {
            Better::Higher => "more",
            Better::Lower => "less",
            Better::Neither => "",
        };
        let cells: [&str; 5] = [
            &metric.name,
            &metric.title,
            &metric.unit,
            better,
            &metric.meaning,
        ];
        cells.map(str::to_owned)
    });
    match format {
        PageFormat::Table => output::write_table(out, header, rows),
        PageFormat::Csv => output::write_csv(out, header, rows),
        PageFormat::Markdown => output::write_markdown_table(out, header, rows),
        PageFormat::Json => output::write_json(out, &METRICS),
    }
}

fn write_selected_perfetto_trace(args: &TimelineArgs, out: &mut Screen) -> anyhow::Result<()> {
    let path = &args.output;
    new_file::check_output_may_be_written(path, args.force)
        .with_context(|| path.display().to_string())?;
    let results = ResultReader::open(&args.results)?;
    let mut rows = results.read_timeline_rows()?;
    anyhow::ensure!(
        !rows.is_empty(),
        "{}: no timelines; only simulated runs longer than 0.1 s have some",
        args.results.display()
    );
    keep_rows_with_option_names(&mut rows, "--workload", args.workload.as_slice(), |row| {
        &row.workload
    })?;
    keep_rows_with_option_names(&mut rows, "--policy", &args.policy, |row| &row.policy)?;
    keep_rows_with_option_names(&mut rows, "--at", std::slice::from_ref(&args.at), |row| {
        &row.at
    })?;
    let machines = results.document().machines.iter();
    let titles: Vec<&str> = machines.map(|machine| machine.title.as_str()).collect();
    let timeline = Timeline::from_table_rows(&titles.join(" / "), &rows);
    new_file::write_whole_file(path, args.force, |file| {
        perfetto::write_perfetto_trace(BufWriter::new(file), &timeline)?;
        Ok(())
    })
    .with_context(|| path.display().to_string())?;
    writeln!(
        out,
        "{}: open it at https://ui.perfetto.dev",
        path.display()
    )?;
    Ok(())
}

/// Keeps timeline rows that have one of the names given to an option; all rows if no names are given.
fn keep_rows_with_option_names(
    rows: &mut Vec<TimelineRow>,
    option: &str,
    names: &[String],
    name: impl Fn(&TimelineRow) -> &String,
) -> anyhow::Result<()> {
    let mut known: Vec<&str> = Vec::new();
    for row in rows.iter() {
        if !known.contains(&name(row).as_str()) {
            known.push(name(row));
        }
    }
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        anyhow::bail!(
            "{option}: nothing of `{unknown}`{}",
            suggestion_with_known_names(unknown, &known)
        );
    }
    rows.retain(|row| is_empty_or_contains(names, name(row)));
    Ok(())
}

fn import_laboratory_runs(args: &LaboratoryArgs, out: &mut Screen) -> anyhow::Result<()> {
    let mode = if args.force { Mode::Replace } else { Mode::New };
    let runs =
        laboratory::write_laboratory_results(&args.simulated, &args.measured, &args.output, mode)?;
    let (dir, simulated) = (args.output.display(), args.simulated.display());
    writeln!(
        out,
        "{} in {dir}; next: wakepath compare {simulated} {dir}",
        output::count_with_noun(runs as u64, "run")
    )?;
    Ok(())
}

fn merge_shard_results(args: &MergeArgs, out: &mut Screen) -> anyhow::Result<()> {
    let mode = if args.force { Mode::Replace } else { Mode::New };
    let runs = merge_shards(&args.shards, &args.output, mode)?;
    let dir = args.output.display();
    writeln!(
        out,
        "{} in {dir}; next: wakepath compare {dir}, wakepath report {dir} -o report.html",
        output::count_with_noun(runs as u64, "run")
    )?;
    Ok(())
}
