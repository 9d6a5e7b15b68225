//! `wakepath explain`: where the time of block requests goes, live or from a recording.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use wakepath_explain::{Collector, Coverage, MAX_REQUESTS};
use wakepath_trace::recording::{Known, Metadata, Reader, RecordingError, SCHEMA};

use crate::messages::{note, warning};
use crate::output::{Format, Screen};
use crate::until;

use results::ResultTarget;

mod answer;
mod live;
mod moments;
mod results;

/// Where the time of block requests goes: queues, drive, idle exits, interrupt, hand-over, run queue.
///
/// Without a recording, this machine is watched (needs root). Measured parts add up to each request's latency, and to the
/// wait of its task. The exit from an idle state is estimated, with a 95 % interval, from requests that are alike but for
/// the state that the interrupted CPU was in.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath explain
  sudo wakepath explain --drive nvme0n1 -- fio job.fio
  sudo wakepath explain --watch
  sudo wakepath explain -o load --duration 1m && wakepath report load
  sudo wakepath record -o load.parquet --duration 30s && wakepath explain load.parquet")]
pub(crate) struct Args {
    /// A recording of `wakepath record` or `wakepath import` [default: this machine, now].
    #[arg(value_name = "RECORDING")]
    recording: Option<PathBuf>,
    /// How long to watch, such as 30s or 5m [default: 30s, or until COMMAND ends, or Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = until::duration, conflicts_with = "recording")]
    duration: Option<Duration>,
    /// Only requests of this drive, such as nvme0n1.
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// Explain each interval, until Ctrl-C.
    #[arg(long, conflicts_with = "recording")]
    watch: bool,
    /// How long an interval of --watch is.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = until::duration, requires = "watch")]
    interval: Duration,
    /// Also write a result directory, for `compare`, `report` and Python.
    #[arg(short, long, value_name = "DIR", conflicts_with = "watch")]
    output: Option<PathBuf>,
    /// Replace the results that are in DIR.
    #[arg(long, requires = "output")]
    force: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// A command to run meanwhile; watching ends with it.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "recording")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    if let Some(dir) = args.output.as_ref().filter(|_| !args.force) {
        results::check(dir)?;
    }
    let Some(path) = &args.recording else {
        return live::run(args, out);
    };
    let mut reader = Reader::open(path)?;
    let metadata = reader.metadata().clone();
    let device = find_drive(args.drive.as_deref(), &metadata)?;
    let mut collector = Collector::new(&metadata);
    reader.for_each(|event| -> Result<(), RecordingError> {
        collector.push(&event);
        Ok(())
    })?;
    let mut collected = collector.finish();
    if let Some(device) = device {
        collected.keep_device(device);
    }
    warn_of_gaps(&collected.coverage, 0);
    ensure!(
        !collected.requests.is_empty(),
        "{}: no block request with issue and completion{}; record with `wakepath record`, or trace block_rq_issue and \
         block_rq_complete",
        path.display(),
        args.drive
            .as_ref()
            .map_or_else(String::new, |drive| format!(" of {drive}"))
    );
    let groups = wakepath_explain::explain_kinds(&collected, &metadata);
    let explanation = wakepath_explain::summarize(&groups, &collected, &metadata);
    if let Some(dir) = &args.output {
        let mut moments = moments::find(results::keep_large_kinds(&groups));
        if let Some(group) = groups.first() {
            let names = &group.kind.state_names;
            Reader::open(path)?.for_each(|event| -> Result<(), RecordingError> {
                moments
                    .iter_mut()
                    .for_each(|moment| moment.see(&event, names));
                Ok(())
            })?;
        }
        let force = args.force;
        let target = ResultTarget { dir, force };
        let source = path.display().to_string();
        results::write(&target, &groups, &moments, &metadata, &source)?;
    }
    name_missing(&metadata);
    answer::print(&explanation, args.format, out)
}

/// The number of the drive that is asked for.
fn find_drive(name: Option<&str>, metadata: &Metadata) -> anyhow::Result<Option<u32>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    let found = metadata.devices.iter().find(|drive| drive.name == short);
    if let Some(drive) = found {
        return Ok(Some(drive.device));
    }
    let names: Vec<&str> = metadata.devices.iter().map(|d| d.name.as_str()).collect();
    if names.is_empty() {
        bail!("--drive {name}: no drives are known by name; leave --drive out");
    }
    bail!(
        "--drive {name}: no such drive; expected one of {} (a partition's requests count for its drive)",
        names.join(", ")
    )
}

/// Says what is left out. `lost`: events that found no room, of a live run.
fn warn_of_gaps(coverage: &Coverage, lost: u64) {
    if lost > 0 {
        warning!(
            "{lost} events found no room in the buffers; requests in flight there are left out"
        );
    } else if coverage.gaps > 0 {
        warning!(
            "events are missing at {} places; requests in flight there are left out",
            coverage.gaps
        );
    }
    let unpaired = coverage.without_issue + coverage.without_completion;
    if unpaired > 0 {
        warning!("{unpaired} requests have only an issue or only a completion, and are left out");
    }
    if coverage.backwards > 0 {
        warning!(
            "{} requests completed before they were issued: the trace's clock differs from CPU to CPU",
            coverage.backwards
        );
    }
    if coverage.beyond_limit > 0 {
        warning!(
            "{} requests beyond the first {MAX_REQUESTS} are left out",
            coverage.beyond_limit
        );
    }
}

/// Says which parts cannot be known.
fn name_missing(metadata: &Metadata) {
    if metadata.schema < SCHEMA {
        note!(
            "a recording of an older schema ({} of {SCHEMA}): it has no queueing, interrupts and steps of tasks",
            metadata.schema
        );
    }
    if metadata.idle_driver.as_deref() == Some("haltpoll") {
        note_guest();
    }
    let recorded = &metadata.recorded;
    for (known, what) in [
        (recorded.idle, "no idle periods: no idle exits"),
        (
            recorded.queueing,
            "no queueing: time before issue, process, and who waits for nobody are not known",
        ),
        (
            recorded.interrupts,
            "no interrupts: out ends where the CPU leaves its idle state or the request completes, and another device's \
             interrupt may count as the drive's",
        ),
        (
            recorded.ipis,
            "no IPIs: completions that one CPU hands to another count as one, and how tasks' CPUs are woken is not known",
        ),
        (
            recorded.tasks,
            "no steps of tasks: run queue and wait are not known, and the next wake-up counts as the request's",
        ),
        (
            recorded.wakes,
            "no wake-ups: an exit that a wake-up caused may count as the drive's",
        ),
        (
            recorded.frequency,
            "no frequency changes: requests at different clocks are compared",
        ),
        (
            recorded.timers,
            "no timers: an exit that a timer caused may count as the drive's",
        ),
    ] {
        if known == Known::Missing {
            note!("{what}");
        }
    }
}

fn note_guest() {
    note!(
        "a virtual machine: its C1 is a halt that the host answers, so that an exit from C1 has the host's part, too"
    );
}
