//! Warnings about what an explanation leaves out or cannot know.

use wakepath_explain::{Coverage, MAX_REQUESTS};
use wakepath_record::UNSEEN_SWITCHES;
use wakepath_trace::recording::{DataQuality, Metadata, SCHEMA};

use crate::messages::{note, warning};

/// Warns of what the recording leaves out. `lost`: events that found no room in a live run.
pub(super) fn warn_of_gaps(coverage: &Coverage, lost: u64) {
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
    if coverage.flushes > 0 {
        warning!(
            "{} flushes are left out: the bio, or the flush that the block layer issued for it, was not seen",
            coverage.flushes
        );
    }
    if coverage.flushes_without_end > 0 {
        warning!(
            "{} flushes are left out: their end was not seen, though their tasks or later flushes went on",
            coverage.flushes_without_end
        );
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

/// Warns of tasks that the kernel ran no eBPF programs for while this was recorded.
pub(super) fn warn_of_unseen_tasks(metadata: &Metadata) {
    let unseen = metadata.warnings.iter().find(|w| w.name == UNSEEN_SWITCHES);
    if let Some(unseen) = unseen {
        warning!("{} ({} times)", unseen.text, unseen.count);
    }
}

/// The first version of the format with queueing, interrupts and steps of tasks.
const FIRST_WITH_QUEUEING: u32 = 2;

/// Says which parts cannot be known.
pub(super) fn warn_of_missing_hooks(metadata: &Metadata) {
    if let Some(text) = describe_older_schema(metadata) {
        note!("{text}");
    }
    if metadata.idle_driver.as_deref() == Some("haltpoll") {
        note_virtual_machine();
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
            recorded.frequency.max(recorded.clock),
            "no cycles of CPUs (perf events) and no frequency changes: the clock is not known, and requests at different clocks are \
             compared; virtual machines often count no cycles, and HWP and amd-pstate-epp send no frequency changes",
        ),
        (
            recorded.timers,
            "no timers: an exit that a timer caused may count as the drive's",
        ),
    ] {
        if known == DataQuality::Missing {
            note!("{what}");
        }
    }
    if recorded.idle != DataQuality::Missing && metadata.idle_states.is_empty() {
        note!(
            "no idle states by name: a trace has none, nor has a kernel without cpuidle driver, which calls its halt state 1; \
             declared exits, and what would help by them, are not known"
        );
    }
    let residency = metadata.residency.as_ref();
    if recorded.idle != DataQuality::Missing && residency.is_none_or(|r| r.reached.is_empty()) {
        note!(
            "no residency counters of cores and packages: states are those requested; the share that the hardware reached, and \
             what its package did, are not known"
        );
    }
    if recorded.queueing != DataQuality::Missing && metadata.cgroups.is_empty() {
        note!("no cgroups: the submitters' cgroups are not known");
    }
}

/// What a recording lacks because an older wakepath made it; `None` for recordings of this schema.
fn describe_older_schema(metadata: &Metadata) -> Option<String> {
    (metadata.schema < FIRST_WITH_QUEUEING).then(|| {
        format!(
            "a recording of an older schema ({} of {SCHEMA}): it has no queueing, interrupts and steps of tasks",
            metadata.schema
        )
    })
}

pub(super) fn note_virtual_machine() {
    note!(
        "a virtual machine: its C1 is a halt that the host answers, so that an exit from C1 has the host's part, too"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_schema(schema: u32) -> Option<String> {
        describe_older_schema(&Metadata {
            schema,
            ..Metadata::default()
        })
    }

    #[test]
    fn recordings_of_the_first_schema_are_named_with_what_they_lack() {
        let text = describe_schema(1).unwrap_or_default();
        let start = format!("a recording of an older schema (1 of {SCHEMA}): ");
        assert_eq!(
            text.strip_prefix(&start),
            Some("it has no queueing, interrupts and steps of tasks")
        );
        for complete in FIRST_WITH_QUEUEING..=SCHEMA {
            assert_eq!(describe_schema(complete), None);
        }
    }
}
