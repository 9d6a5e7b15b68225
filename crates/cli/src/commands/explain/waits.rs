//! Words for the waits of tasks beyond the time from issue to completion.

use wakepath_explain::{RequestKind, WaitParts};

use super::wording::{count_in_words, format_us};

/// Least wait for the first place in the answer, as a multiple of the time from issue to completion.
const LONG_WAIT: f64 = 4.0 / 3.0;
/// Least share of requests with a wait for the first place in the answer.
const LEAST_SHARE_OF_WAITS: f64 = 0.1;
/// Below this share of requests, the answer says how many had a wait.
const NEARLY_ALL: f64 = 0.9;

/// The wait of tasks with its largest part, if much longer than the time from issue to completion; `None` otherwise, and for
/// readahead and write-back.
pub(super) fn long_wait_in_words(kind: &RequestKind) -> Option<String> {
    let wait = kind.wait.as_ref()?;
    let waits = kind.waits.as_ref()?;
    let share = kind.share_of_requests(wait.requests);
    let is_long = wait.wait_ns >= LONG_WAIT * wait.latency_ns;
    if kind.background || !is_long || share < LEAST_SHARE_OF_WAITS {
        return None;
    }
    let who = waits.task.as_deref().unwrap_or("tasks");
    let count = if share < NEARLY_ALL {
        format!(" for {} of {}", wait.requests, kind.requests)
    } else {
        String::new()
    };
    let (part, time) = largest_part_outside_latency(kind, wait);
    let tail = if part == RUN_QUEUE {
        format!(" (p99 {})", format_us(waits.run_queue_p99_ns as f64))
    } else {
        String::new()
    };
    Some(format!(
        "{who} waited {} us{count} (p99 {}), {} of them {part}{tail}",
        format_us(wait.wait_ns),
        format_us(waits.p99_ns as f64),
        format_us(time)
    ))
}

const RUN_QUEUE: &str = "in the run queue";

/// The largest part of a wait before the issue or after the completion, in words, with its mean in ns.
fn largest_part_outside_latency(kind: &RequestKind, wait: &WaitParts) -> (&'static str, f64) {
    let parts = &kind.parts;
    let before = parts.tag_ns.max(parts.plug_ns).max(parts.scheduler_ns);
    let queued = if parts.flush_ns > before {
        "in the flush machinery"
    } else {
        "before the issue"
    };
    [
        (queued, wait.queued_ns),
        ("until the wake-up", wait.hand_over_ns),
        ("through other threads", wait.through_ns),
        (
            "for the task's CPU to leave its idle state",
            wait.task_exit_ns,
        ),
        (RUN_QUEUE, wait.run_queue_ns),
    ]
    .into_iter()
    .max_by(|(_, one), (_, other)| one.total_cmp(other))
    .unwrap_or((queued, wait.queued_ns))
}

/// A sentence on the time before the issue.
pub(super) fn queue_sentence(kind: &RequestKind) -> Option<String> {
    let parts = &kind.parts;
    let flush = if parts.flush_ns > 0.0 {
        format!(", {} in the flush machinery", format_us(parts.flush_ns))
    } else {
        String::new()
    };
    (kind.queued > 0).then(|| {
        format!(
            "  Before the issue: {} us for a tag, {} plugged, {} in the scheduler{flush}.",
            format_us(parts.tag_ns),
            format_us(parts.plug_ns),
            format_us(parts.scheduler_ns)
        )
    })
}

/// A sentence on the time between completion and the task's running.
pub(super) fn wake_up_sentence(kind: &RequestKind) -> Option<String> {
    let parts = &kind.parts;
    if kind.woke == 0 {
        return None;
    }
    let Some(wait) = &kind.wait else {
        return Some(format!(
            "  {} of {} woke a task: hand-over {} us, idle exit of the task's CPU {} us, after completion.",
            kind.woke,
            count_in_words(kind.requests, "request"),
            format_us(parts.hand_over_ns),
            format_us(parts.task_exit_ns)
        ));
    };
    let through = if wait.through_ns > 0.0 {
        format!(" + through other threads {}", format_us(wait.through_ns))
    } else {
        String::new()
    };
    // Nobody waits for the beginning of readahead and write-back.
    let verb = if kind.background {
        "came to wait for these, since their bios"
    } else {
        "waited"
    };
    Some(format!(
        "  {} {verb} {} us = queued {} + latency {} + hand-over {}{through} + idle exit of the task's CPU {} + run queue {}.",
        count_in_words(wait.requests, "task"),
        format_us(wait.wait_ns),
        format_us(wait.queued_ns),
        format_us(wait.latency_ns),
        format_us(wait.hand_over_ns),
        format_us(wait.task_exit_ns),
        format_us(wait.run_queue_ns)
    ))
}
