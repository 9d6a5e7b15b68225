//! `wakepath explain`: where the time of recorded block requests went.

use std::path::PathBuf;

use anyhow::ensure;
use wakepath_explain::{Collector, Coverage, MAX_REQUESTS};
use wakepath_trace::recording::{Known, Metadata, Reader, RecordingError, SCHEMA};

use crate::messages::{note, warning};
use crate::output::{Format, Screen};

mod answer;

/// Where the time of recorded block requests went: queues, drive, idle exits, interrupt, hand-over, run queue.
///
/// Measured parts add up to each request's latency, and to the wait of its task. The exit from an idle state is estimated, with a 95 % interval, from
/// requests that are alike but for the state that the completing CPU was in.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath record -o load.parquet --duration 30s && wakepath explain load.parquet
  wakepath explain load.parquet --format csv")]
pub(crate) struct Args {
    /// A recording of `wakepath record` or `wakepath import`.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let mut reader = Reader::open(&args.recording)?;
    let metadata = reader.metadata().clone();
    let mut collector = Collector::new(&metadata.recorded);
    reader.for_each(|event| -> Result<(), RecordingError> {
        collector.push(&event);
        Ok(())
    })?;
    let (requests, coverage) = collector.finish();
    warn_of_gaps(&coverage);
    ensure!(
        !requests.is_empty(),
        "{}: no block request with issue and completion; record with `wakepath record`, or trace block_rq_issue and \
         block_rq_complete",
        args.recording.display()
    );
    let explanation = wakepath_explain::explain(&requests, coverage, &metadata);
    name_missing(&metadata);
    answer::print(&explanation, args.format, out)
}

fn warn_of_gaps(coverage: &Coverage) {
    if coverage.gaps > 0 {
        warning!(
            "the recording lacks events at {} places; requests in flight there are left out",
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

/// Says which parts a recording cannot have.
fn name_missing(metadata: &Metadata) {
    if metadata.schema < SCHEMA {
        note!(
            "a recording of an older schema ({} of {SCHEMA}): it has no queueing, interrupts and steps of tasks",
            metadata.schema
        );
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
            note!("the recording has {what}");
        }
    }
}
