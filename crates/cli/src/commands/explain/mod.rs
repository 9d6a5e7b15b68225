//! `wakepath explain`: where the time of block requests goes, live or from a recording.

use std::path::Path;

use anyhow::ensure;
use wakepath_explain::{Collector, KindGroup};
use wakepath_trace::recording::{Reader, RecordingError};

use crate::commands::record::refuse_dashes_without_command;
use crate::messages::note;
use crate::output::{Format, Screen};
use arguments::find_drive_number;
use gaps::{warn_of_gaps, warn_of_missing_hooks, warn_of_unseen_tasks};
use moments::Moment;
use outputs::OutputTargets;
use results::TracedResults;

mod answer;
mod arguments;
mod exits;
mod gaps;
mod help;
mod live;
mod live_requests;
mod measured;
mod moments;
mod outputs;
mod page;
mod residency;
mod results;
mod waits;
mod wording;

pub(crate) use arguments::Args;
pub(super) use live_requests::LiveRequests;

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    refuse_dashes_without_command(&args.command)?;
    let targets = OutputTargets::check(args)?;
    let Some(path) = &args.recording else {
        return live::run(args, &targets, out);
    };
    let mut reader = Reader::open(path)?;
    let metadata = reader.metadata().clone();
    let device = find_drive_number(args.drive.as_deref(), &metadata)?;
    let mut collector = Collector::new(&metadata);
    collector.collect_recording(&mut reader)?;
    let mut collected = collector.finish();
    if let Some(device) = device {
        collected.keep_only_device(device);
    }
    warn_of_gaps(&collected.coverage, 0);
    warn_of_unseen_tasks(&metadata);
    ensure!(
        !collected.requests.is_empty(),
        "{}: no block request with issue and completion{}; record with `wakepath record`, or trace block_rq_issue and \
         block_rq_complete",
        path.display(),
        args.drive
            .as_ref()
            .map_or_else(String::new, |drive| format!(" of {drive}"))
    );
    let mut groups =
        wakepath_explain::explain_request_kinds(&collected, args.by.map(Into::into), &metadata);
    let measured = measured::find_measured_exits(args.machine.as_deref(), &metadata)?;
    wakepath_explain::compare_estimates(&mut groups, &measured, &collected.timers);
    let mut explanation = wakepath_explain::assemble_explanation(&groups, &collected, &metadata);
    let source = path.display().to_string();
    let results = if targets.wants_results() {
        let moments = find_moments_with_idle_periods(path, &groups)?;
        Some(TracedResults::new(&groups, &moments, &metadata, &source)?)
    } else {
        None
    };
    warn_of_missing_hooks(&metadata);
    // CSV has no place for what a replay says.
    if args.format != Format::Csv {
        match help::replay_proposals(path, &metadata, &explanation, args.machine.as_deref()) {
            Ok(replayed) => explanation.replayed = Some(replayed),
            Err(error) if args.machine.is_some() => return Err(error),
            Err(error) => {
                note!("what other governors would do is not known: {error:#}");
                explanation.replayed = Some(Vec::new());
            }
        }
    }
    answer::print_explanation(&explanation, args.by, args.format, out)?;
    targets.write_after_answer(results, &explanation, Some(path), out)
}

/// Moments of the recording, with what CPUs did around each.
fn find_moments_with_idle_periods(
    path: &Path,
    groups: &[KindGroup<'_>],
) -> anyhow::Result<Vec<Moment>> {
    let mut moments = moments::find_moments(results::keep_large_kinds(groups));
    if let Some(group) = groups.first() {
        let names = &group.kind.state_names;
        Reader::open(path)?.for_each_event(|event| -> Result<(), RecordingError> {
            for moment in &mut moments {
                moment.add_idle_period(&event, names);
            }
            Ok(())
        })?;
    }
    Ok(moments)
}
