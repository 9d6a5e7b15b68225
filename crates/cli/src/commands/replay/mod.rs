//! `wakepath replay`: recorded wake-ups through other idle governors.
//!
//! A replay is a study made on the spot: one recording, the policy sets, and time blocks as repeats.

mod arguments;
mod decisions;
mod drive;
mod intervals;
mod study;
mod tables;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use wakepath_replay::Report;
use wakepath_results::Mode;
use wakepath_results::directory::DOCUMENT;
use wakepath_study::file::StudyError;
use wakepath_study::plan::Plan;
use wakepath_study::run::replay::{
    Replay, Replayed, Replaying, doubt_by_few_recorded_cpus, evidence_for_other_machine,
};
use wakepath_study::run::{self, RunControl};
use wakepath_trace::recording::Reader;
use wakepath_units::cpus;

pub(crate) use arguments::Args;

use crate::commands::here;
use crate::messages::warning;
use crate::new_file;
use crate::output::{self, Format, Screen};
use crate::waiting::{ProgressLog, ProgressReporter};
use intervals::ReplayIntervals;
use tables::Table;

pub(crate) fn replay_and_print_recording(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    check_arguments_fit_together(args)?;
    if let Some(name) = &args.drive {
        return drive::print_drive_under_tables(args, name, out);
    }
    let metadata = Reader::open(&args.trace)?.metadata().clone();
    let request = study::make_replay_request(args, &metadata)?;
    let plan = Plan::for_replay(&request, args.programs.allowed)?;
    here::hold_notes_on_planned_machines(&plan);
    let named = plan.machines.iter().find_map(|m| m.model.as_ref());
    if let Some(machine) = named.filter(|_| !args.any_machine) {
        let trace = args.trace.display();
        if let Some(what) = evidence_for_other_machine(&metadata, machine) {
            bail!(
                "{trace} is of another machine than {}: {what}. Replay it without --machine, on its own, or give --any-machine",
                machine.name
            );
        }
        if let Some(doubt) = doubt_by_few_recorded_cpus(&metadata, machine) {
            warning!("{trace}: {doubt}. --any-machine says that this is meant");
        }
    }
    let backend = Replay::new(&plan)?;
    let recording = backend.find_recording(0, 0).context("no recording")?;
    if let Some(file) = &args.decisions {
        let sets = study::policy_sets_per_kernel(args, &metadata)?;
        return decisions::score_and_print_given_answers(file, args, recording, &sets, out);
    }
    let replayed = Arc::new(replay_with_progress(args, recording)?);
    backend.keep_outcome_of_replay(0, 0, Arc::clone(&replayed));
    let report = &replayed.report;
    for warning in &report.warnings {
        warning!("{} ({}x): {}", warning.name, warning.count, warning.text);
    }
    if report.periods == 0 {
        return print_drives_without_idle_periods(args, &replayed, out);
    }
    if let Some(dir) = &args.output {
        let mode = if args.force { Mode::Replace } else { Mode::New };
        run::run_plan(
            &plan,
            &backend,
            None,
            dir,
            mode,
            &RunControl::without_reports_or_cancellation(),
        )?;
    }
    let all_figures = Replay::new(&plan)?.with_sparse_figures();
    all_figures.keep_outcome_of_replay(0, 0, Arc::clone(&replayed));
    let intervals = ReplayIntervals::new(&plan, &all_figures, report, !args.kernel.is_empty())?;
    print_replay_in_format(args, &replayed, &intervals, out)
}

/// Checks the arguments before any long work.
fn check_arguments_fit_together(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.table.is_none() || args.format == Format::Csv,
        "--table chooses what --format csv prints; the other formats have all tables"
    );
    ensure!(
        args.cpu.is_none() || args.calls.is_some() || args.decisions.is_some(),
        "--cpu says whose call log is meant, so it goes with --calls or --decisions"
    );
    if let Some(calls) = &args.calls {
        check_call_log_path(calls, args).with_context(|| calls.display().to_string())?;
    }
    if let Some(dir) = args.output.as_ref().filter(|_| !args.force) {
        let there = dir.join(DOCUMENT).exists();
        ensure!(
            !there,
            "{}: results are there already; --force replaces them",
            dir.display()
        );
    }
    Ok(())
}

/// Replays the recording, with progress on a terminal, in a log, and for a calling program.
fn replay_with_progress(args: &Args, recording: &Replaying<'_>) -> anyhow::Result<Replayed> {
    let bar = ProgressBar::new(1000).with_style(ProgressStyle::with_template(
        "{bar:30} {percent} %, {eta} left",
    )?);
    let reporter = ProgressReporter::from_environment(100)?;
    let percent = Arc::new(AtomicUsize::new(0));
    let in_log =
        ProgressLog::start_unless_terminal(Arc::clone(&percent), Some(100), "% of the recording");
    let blocks = args.blocks as usize;
    let mut progress = |share: f64| {
        bar.set_position((share * 1000.0) as u64);
        reporter.report_done_parts((share * 100.0) as u64);
        percent.store((share * 100.0) as usize, Ordering::Relaxed);
        true
    };
    let replayed = match &args.calls {
        Some(path) => replay_and_write_call_log(path, args, |log| {
            recording.replay_in_blocks(blocks, log, &mut progress)
        })?,
        None => recording.replay_in_blocks(blocks, None, &mut progress)?,
    };
    bar.finish_and_clear();
    drop(in_log);
    reporter.report_done_parts(100);
    Ok(replayed)
}

/// Prints the drives of a recording that has no idle periods.
fn print_drives_without_idle_periods(
    args: &Args,
    replayed: &Replayed,
    out: &mut Screen,
) -> anyhow::Result<()> {
    ensure!(
        args.output.is_none(),
        "{} has no idle periods, so that there are no results to keep",
        args.trace.display()
    );
    let report = &replayed.report;
    match args.format {
        Format::Json => output::write_json(out, report),
        Format::Table => {
            writeln!(
                out,
                "no idle periods in {:.3} s",
                report.duration_ns as f64 / 1e9
            )?;
            tables::write_gaps_and_timeouts_as_text(report, out)
        }
        Format::Csv => match args.table {
            Some(table @ (Table::Drives | Table::Gaps | Table::Timeouts)) => {
                tables::write_csv_table(replayed, table, out)
            }
            _ => bail!(
                "{} has no idle periods; --table drives, gaps and timeouts have what it shows",
                args.trace.display()
            ),
        },
    }
}

fn print_replay_in_format(
    args: &Args,
    replayed: &Replayed,
    intervals: &ReplayIntervals,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let report = &replayed.report;
    match args.format {
        Format::Json => output::write_json(out, &WithIntervals { report, intervals }),
        Format::Csv => {
            let table = match args.table {
                None if !args.kernel.is_empty() => Table::Kernels,
                table => table.unwrap_or_default(),
            };
            match table {
                Table::Intervals => intervals.write_csv(out),
                table => tables::write_csv_table(replayed, table, out),
            }
        }
        Format::Table => {
            if !args.kernel.is_empty() {
                tables::write_kernel_comparison_table(replayed, out)?;
            }
            tables::write_all_tables_as_text(report, intervals, out)
        }
    }
}

/// JSON has report and intervals in one document.
#[derive(serde::Serialize)]
struct WithIntervals<'a> {
    #[serde(flatten)]
    report: &'a Report,
    intervals: &'a ReplayIntervals,
}

/// Checks the call log's path before any work is done.
fn check_call_log_path(calls: &Path, args: &Args) -> anyhow::Result<()> {
    let both = [calls, &args.trace].map(fs::canonicalize);
    ensure!(
        !matches!(both, [Ok(calls), Ok(trace)] if calls == trace),
        "it is the recording itself; give the call log another name"
    );
    new_file::check_output_may_be_written(calls, args.force)
}

/// Replays with the governor call log written to `path`, which exists only if the replay succeeds.
fn replay_and_write_call_log(
    path: &Path,
    args: &Args,
    replay: impl FnOnce(Option<(u32, &mut dyn Write)>) -> Result<Replayed, StudyError>,
) -> anyhow::Result<Replayed> {
    let mut replayed = None;
    new_file::write_whole_file(path, args.force, |file| {
        let mut log = BufWriter::new(file);
        let of_all = replayed.insert(replay(Some((args.cpu.unwrap_or(0), &mut log)))?);
        log.flush()?;
        ensure!(
            file.metadata()?.len() > 0,
            "CPU {} has no idle period in {}; --cpu can be {}",
            args.cpu.unwrap_or(0),
            args.trace.display(),
            cpus::format_cpu_list(&of_all.report.cpus)
        );
        Ok(())
    })
    .with_context(|| path.display().to_string())?;
    replayed.context("no replay")
}
