//! `wakepath workload`: workloads from what was recorded.

mod job;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use wakepath_trace::recording::Reader;
use wakepath_trace::task_io::{TaskIoProfile, collect_task_io};

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
    /// Make fio jobs of the tasks that did I/O in a recording, as closed loops.
    Extract(ExtractArgs),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath workload extract wakepath.parquet -o mine.fio
  wakepath sim mine.fio --machine my-machine/machine.toml --policy menu --policy 'menu + psd'")]
struct ExtractArgs {
    /// Recording by `wakepath record`, `wakepath import` or `wakepath sim --record`.
    recording: PathBuf,
    /// Job file to write.
    #[arg(short, long, value_name = "FILE.fio")]
    output: PathBuf,
    /// Replace the job file if it exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run_workload_command(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    match &args.command {
        Action::Extract(args) => extract_fio_jobs_from_recording(args, out),
    }
}

fn extract_fio_jobs_from_recording(args: &ExtractArgs, out: &mut Screen) -> anyhow::Result<()> {
    let output = args.output.display();
    new_file::check_output_may_be_written(&args.output, args.force)
        .with_context(|| output.to_string())?;
    let name = args.recording.display().to_string();
    let profile = collect_task_io(&mut Reader::open(&args.recording)?)?;
    let jobs = job::choose_tasks_with_most_requests(&profile);
    ensure!(
        !jobs.is_empty(),
        "{name}: no task with at least {} requests that it waited for. A workload needs block requests with their \
         submitters, as `wakepath record` writes them (schema 2)",
        job::FEWEST_REQUESTS
    );
    let text = job::format_fio_job_file(&name, &profile, &jobs);
    new_file::write_whole_file(&args.output, args.force, |mut file| {
        Ok(file.write_all(text.as_bytes())?)
    })
    .with_context(|| output.to_string())?;
    note_requests_without_job(&profile, &jobs);
    writeln!(
        out,
        "{output}: {} jobs, from {} tasks with I/O over {:.3} s",
        jobs.len(),
        profile.tasks.len(),
        profile.duration_ns as f64 / 1e9
    )?;
    Ok(())
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
        (profile.without_data, "without data, as flushes"),
        (
            profile.not_followed,
            "beyond the most tasks or requests in flight that are followed",
        ),
    ];
    for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        warning!("{count} requests {what} are in no job");
    }
    if profile.shared_bursts > 0 {
        warning!(
            "{} CPU bursts are not counted: another task with I/O ran on the CPU meanwhile",
            profile.shared_bursts
        );
    }
}
