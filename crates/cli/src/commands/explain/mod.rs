//! `wakepath explain`: where the time of block requests goes, live or from a recording.

use anyhow::ensure;
use wakepath_explain::Collector;
use wakepath_trace::recording::{Reader, RecordingError};

use crate::output::Screen;
use arguments::{find_drive, keep_device};
use gaps::{name_missing, warn_of_gaps};

mod answer;
mod arguments;
mod gaps;
mod live;

pub(crate) use arguments::Args;

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
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
    let (requests, coverage, timers) = collector.finish();
    let kept = keep_device(requests, device);
    warn_of_gaps(&coverage, 0);
    ensure!(
        !kept.is_empty(),
        "{}: no block request with issue and completion{}; record with `wakepath record`, or trace block_rq_issue and \
         block_rq_complete",
        path.display(),
        args.drive
            .as_ref()
            .map_or_else(String::new, |drive| format!(" of {drive}"))
    );
    let mut explanation = wakepath_explain::explain(&kept, coverage, &metadata);
    explanation.timers = timers;
    name_missing(&metadata);
    answer::print(&explanation, args.format, out)
}
