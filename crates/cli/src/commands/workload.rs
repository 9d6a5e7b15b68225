//! `wakepath workload`: workloads extracted from recordings, or built in, and options of fio.

mod builtin;
mod fio_log;
mod job;
mod list;
mod options;
mod show;
mod steps;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use wakepath_trace::recording::Reader;
use wakepath_trace::task_io::{TaskIoProfile, collect_task_io};
use wakepath_trace::task_steps::{
    MAX_OBSERVED_STEPS, ObservedStep, ObservedTask, ObservedTasks, TaskStepsError,
    collect_task_steps,
};
use wakepath_workloads::tasks::TasksFile;

use crate::messages::{note, warning};
use crate::new_file;
use crate::output::Screen;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Make a workload of what the tasks in a recording did, as closed loops; or a log for fio of a block trace.
    Extract(ExtractArgs),
    /// The built-in workloads, and which of them were set beside a real program.
    List(list::Args),
    /// What a built-in workload is, where its figures come from, and how near it is to a real program.
    Show(show::Args),
    /// fio's options: what they may be and do in the simulator, and which are ignored or refused.
    Options(options::Args),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath workload extract wakepath.parquet -o mine.toml
  wakepath workload extract wakepath.parquet -o mine.fio
  wakepath workload extract trace.csv --disk 1 -o mine.log
  wakepath sim mine.toml --machine my-machine/machine.toml --policy menu --policy 'menu + psd'")]
struct ExtractArgs {
    /// Recording by `wakepath record`, `wakepath import` or `wakepath sim --record`; for a log also another block trace.
    recording: PathBuf,
    /// File to write. A name in .toml gets the steps of all tasks, which takes a recording with --all-tasks. One in .log gets the
    /// requests to a disk at their times, for `fio --read_iolog`. Any other name gets fio jobs, for tasks with I/O.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The disk whose requests a log gets [default: the disk with most requests, or all files of fio's iolog].
    #[arg(long, value_name = "NAME")]
    disk: Option<String>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run_workload_command(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    match &args.command {
        Action::List(args) => list::print_builtin_workloads(args, out),
        Action::Show(args) => show::show_builtin_workload(args, out),
        Action::Options(args) => options::print_fio_options(args, out),
        Action::Extract(args) => {
            new_file::check_output_may_be_written(&args.output, args.force)
                .with_context(|| args.output.display().to_string())?;
            let extension = args.output.extension();
            ensure!(
                !extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json")),
                "{}: rt-app files are not written; a name in .toml gets the steps of all tasks, one in .fio gets fio jobs",
                args.output.display()
            );
            if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("log")) {
                return fio_log::write_log_of_block_trace(
                    &args.recording,
                    args.disk.clone(),
                    &args.output,
                    args.force,
                    out,
                );
            }
            ensure!(
                args.disk.is_none(),
                "--disk is for logs, and {} gets no log; name a file in .log",
                args.output.display()
            );
            if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
                extract_tasks_from_recording(args, out)
            } else {
                extract_fio_jobs_from_recording(args, out)
            }
        }
    }
}

fn extract_fio_jobs_from_recording(args: &ExtractArgs, out: &mut Screen) -> anyhow::Result<()> {
    let name = args.recording.display().to_string();
    let profile = collect_task_io(&mut Reader::open(&args.recording)?)?;
    ensure!(
        profile.has_requests(),
        "{name}: the recording has no block requests; record a machine with drives, or import with block:* events"
    );
    let jobs = job::choose_tasks_with_most_requests(&profile);
    let flushes: u64 = profile.tasks.values().map(|io| io.flushes).sum();
    ensure!(
        !jobs.is_empty() || profile.background == 0,
        "{name}: no task with at least {} requests that it waited for. {} requests are write-back, with {flushes} flushes: a fio job \
         with direct I/O cannot make them; a name in .toml gets the steps of all tasks (`--all-tasks`)",
        job::FEWEST_REQUESTS,
        profile.background
    );
    ensure!(
        !jobs.is_empty(),
        "{name}: no task with at least {} requests that it waited for. A workload needs block requests with their \
         submitters, as `wakepath record` writes them (schema 2)",
        job::FEWEST_REQUESTS
    );
    let text = job::format_fio_job_file(&name, &profile, &jobs);
    write_workload_file(args, &text)?;
    note_requests_without_job(&profile, &jobs);
    writeln!(
        out,
        "{}: {} jobs, from {} tasks with I/O over {:.3} s",
        args.output.display(),
        jobs.len(),
        profile.tasks.len(),
        profile.duration_ns as f64 / 1e9
    )?;
    Ok(())
}

fn extract_tasks_from_recording(args: &ExtractArgs, out: &mut Screen) -> anyhow::Result<()> {
    let observed = collect_task_steps(&mut Reader::open(&args.recording)?)
        .map_err(|error| explain_missing_steps(&args.recording, &error))?;
    let (file, too_large) = steps::make_tasks_file(&observed);
    let text = steps::format_tasks_file(&args.recording.display().to_string(), &file);
    write_workload_file(args, &text)?;
    note_what_steps_leave_out(&observed, &file, too_large);
    let steps: usize = file.tasks.iter().map(|task| task.steps.len()).sum();
    writeln!(
        out,
        "{}: {} tasks with {steps} steps, of {:.3} s",
        args.output.display(),
        file.tasks.len(),
        observed.used_ns as f64 / 1e9
    )?;
    Ok(())
}

fn write_workload_file(args: &ExtractArgs, text: &str) -> anyhow::Result<()> {
    new_file::write_whole_file(&args.output, args.force, |mut file| {
        Ok(file.write_all(text.as_bytes())?)
    })
    .with_context(|| args.output.display().to_string())
}

/// An error that says how a recording with steps is made.
fn explain_missing_steps(recording: &Path, error: &TaskStepsError) -> anyhow::Error {
    let remedy = match error {
        TaskStepsError::Missing(_) => {
            ". `wakepath record --all-tasks` and `wakepath sim --record FILE --all-tasks` record what a file of tasks needs"
        }
        TaskStepsError::Recording(_) | TaskStepsError::NoTask => "",
    };
    anyhow::anyhow!("{}: {error}{remedy}", recording.display())
}

/// Whether wake-ups from outside decide when a task runs: at least 20, and one sleep in 20.
fn is_driven_from_outside(task: &ObservedTask) -> bool {
    let wake_ups = count_outside_wake_ups(task);
    wake_ups >= 20 && wake_ups.saturating_mul(20) >= task.waits
}

/// Sleeps that a network, or something unknown, ended.
fn count_outside_wake_ups(task: &ObservedTask) -> u64 {
    let arrivals = task.steps.iter();
    let count = arrivals
        .filter(|step| matches!(step, ObservedStep::Arrival { .. }))
        .count();
    task.outside_wake_ups + count as u64
}

/// Whether a task flushes the drive after it has waited for pages that it wrote back.
fn syncs_pages(task: &ObservedTask) -> bool {
    task.uses_page_cache && task.steps.contains(&ObservedStep::Flush)
}

/// Warns of what the steps do not have, or have otherwise than the recording.
fn note_what_steps_leave_out(observed: &ObservedTasks, file: &TasksFile, too_large: u64) {
    let (used, recorded) = (
        observed.used_ns as f64 / 1e9,
        observed.recorded_ns as f64 / 1e9,
    );
    if observed.has_losses {
        warning!(
            "events were lost: only the longest part without a loss is used, {used:.3} of {recorded:.3} s"
        );
    } else if observed.used_ns < observed.recorded_ns {
        warning!(
            "only {used:.3} of {recorded:.3} s are used: {MAX_OBSERVED_STEPS} steps are enough"
        );
    }
    let left_out = [
        (
            observed.without_task,
            "requests without a followed submitter",
        ),
        (too_large, "requests of more than a GiB"),
    ];
    for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        warning!("{count} {what} are left out");
    }
    let (served, others): (Vec<_>, Vec<_>) = (file.tasks.iter().zip(&observed.tasks))
        .partition(|(_, task)| is_driven_from_outside(task));
    if let Some((first, task)) = served.first() {
        let beside = match served.len() {
            1 => String::new(),
            count => format!(" (and {} other tasks)", count - 1),
        };
        warning!(
            "{}{beside}: {} of {} sleeps ended by wake-ups from outside, as from a network card. The recording does not \
             have what sent them. Requests follow replies where clients seem to wait, and otherwise keep their times: how other settings \
             would change what clients do is not known",
            first.name,
            count_outside_wake_ups(task),
            task.waits
        );
    }
    for (task, _) in (file.tasks.iter().zip(&observed.tasks)).filter(|(_, task)| syncs_pages(task))
    {
        warning!(
            "{}: its fsync waits for the pages that it wrote, one by one. Which of these waits are sleeps depends on the clock, so latencies \
             of its writes under other settings can be off by a third",
            task.name
        );
    }
    let outside: u64 = (others.iter())
        .map(|(_, task)| count_outside_wake_ups(task))
        .sum();
    if outside > 0 {
        note!(
            "{outside} wake-ups came from outside, as from a network card: they come at the recorded times"
        );
    }
    if observed.devices > 1 {
        warning!(
            "requests went to {} devices, and all go to one drive in the simulation",
            observed.devices
        );
    }
}

/// Notes which recorded requests are in no job.
fn note_requests_without_job(profile: &TaskIoProfile, jobs: &[job::Job<'_>]) {
    let rare = profile.tasks.len() - jobs.len();
    if rare > 0 {
        note!(
            "{rare} tasks are left out: fewer than {} requests, or beyond the first {} tasks",
            job::FEWEST_REQUESTS,
            job::MOST_JOBS
        );
    }
    let left_out = [
        (
            profile.background,
            "that nobody waits for, as write-back makes them",
        ),
        (profile.unknown_submitter, "without a recorded submitter"),
        (
            profile.not_followed,
            "beyond the most tasks or requests in flight that are followed",
        ),
    ];
    for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        warning!("{count} requests {what} are in no job");
    }
    let in_jobs: u64 = jobs.iter().map(job::Job::flushes).sum();
    let flushes: u64 = profile.tasks.values().map(|io| io.flushes).sum();
    if flushes > in_jobs {
        let others = flushes - in_jobs;
        warning!("{others} flushes of tasks without a job are left out");
    }
    for missing in jobs.iter().flat_map(job::Job::missing_durability) {
        warning!("{missing}");
    }
    if profile.shared_bursts > 0 {
        warning!(
            "{} CPU bursts are not counted: another task with I/O ran on the CPU meanwhile",
            profile.shared_bursts
        );
    }
}
