//! Recordings of other machines than the one whose figures meet them.

use anyhow::bail;
use wakepath_hardware::Machine;
use wakepath_study::run::replay::{doubt_by_few_recorded_cpus, evidence_for_other_machine};
use wakepath_trace::recording::Metadata;

use crate::messages::warning;

/// Refuses a recording that is evidently of another machine, and warns of doubts. `name` is the machine in messages; `advice`
/// says what to do instead.
pub(super) fn check_recording_is_of_machine(
    name: &str,
    metadata: &Metadata,
    machine: &Machine,
    advice: &str,
) -> anyhow::Result<()> {
    if let Some(what) = evidence_for_other_machine(metadata, machine) {
        bail!("the recording is of another machine than {name}: {what}. {advice}");
    }
    if let Some(doubt) = doubt_by_few_recorded_cpus(metadata, machine) {
        warning!("about the recording: {doubt}");
    }
    Ok(())
}
