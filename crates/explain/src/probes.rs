//! What the probes add to the parts that they measure.

use serde::Serialize;

/// The kernel hooks whose probes run in each part, one run for each name. A probe takes its time stamp first, so that the
/// probe's run falls into the part behind. A probe that runs while the drive works, such as at a governor's choice, adds nothing.
pub mod hooks {
    /// Hooks before the issue. Where a scheduler takes requests, `block_rq_insert` is a further hook.
    pub const QUEUED: [&str; 2] = ["block_bio_queue", "block_getrq"];
    /// Hooks from issue to interrupt.
    pub const OUT: [&str; 1] = ["block_rq_issue"];
    /// Hooks from the interrupt of a sleeping CPU to completion. The kernel's accounting of idle time calls `nr_iowait_cpu`.
    /// Where the softirq completes, as for a drive with a single queue, `softirq_entry` is a further hook.
    pub const INTERRUPT: [&str; 3] = ["cpu_idle", "nr_iowait_cpu", "irq_handler_entry"];
    /// Hooks from the notification of another, sleeping CPU to the completion by the softirq of the notified CPU.
    pub const OTHER_CPU: [&str; 5] = [
        "ipi_send_cpu",
        "cpu_idle",
        "nr_iowait_cpu",
        "call_function_single_entry",
        "softirq_entry",
    ];
    /// Hooks from completion to wake-up.
    pub const HAND_OVER: [&str; 1] = ["block_rq_complete"];
    /// Hooks from the wake-up until the task runs on the interrupted CPU, which leaves the idle loop to run the task. Where the
    /// interrupted CPU was not idle, the last three hooks are missing.
    pub const RUN_QUEUE: [&str; 5] = [
        "sched_waking",
        "sched_wakeup",
        "tick_nohz_idle_got_tick",
        "cpuidle_reflect",
        "tick_nohz_idle_exit",
    ];
    /// Hooks from the wake-up until the task runs on another CPU, which sleeps and is woken by an IPI.
    pub const OTHER_RUN_QUEUE: [&str; 9] = [
        "sched_waking",
        "ipi_send_cpu",
        "cpu_idle",
        "nr_iowait_cpu",
        "call_function_single_entry",
        "tick_nohz_idle_got_tick",
        "cpuidle_reflect",
        "tick_nohz_idle_exit",
        "sched_wakeup",
    ];
}

/// Time that the probes on a request's way add to each part, in ns; estimated from a probe's mean run time and the number of
/// [`hooks`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProbeCost {
    /// Mean run time of a probe, in ns.
    pub run_ns: f64,
    /// Added before the issue.
    pub queued_ns: f64,
    /// Added from issue to interrupt.
    pub out_ns: f64,
    /// Added from interrupt to completion.
    pub interrupt_ns: f64,
    /// Added from the notification of another CPU to completion on the notified CPU, if one CPU hands completions to another.
    pub other_cpu_ns: f64,
    /// Added from completion to wake-up.
    pub hand_over_ns: f64,
    /// Added from the wake-up until the task runs, on the interrupted CPU.
    pub run_queue_ns: f64,
    /// Added from the wake-up until the task runs, on another CPU.
    pub other_run_queue_ns: f64,
}

impl ProbeCost {
    /// Estimates all parts from the mean run of a probe in ns.
    pub fn new(run_ns: f64) -> Self {
        Self {
            run_ns,
            queued_ns: time_runs(&hooks::QUEUED, run_ns),
            out_ns: time_runs(&hooks::OUT, run_ns),
            interrupt_ns: time_runs(&hooks::INTERRUPT, run_ns),
            other_cpu_ns: time_runs(&hooks::OTHER_CPU, run_ns),
            hand_over_ns: time_runs(&hooks::HAND_OVER, run_ns),
            run_queue_ns: time_runs(&hooks::RUN_QUEUE, run_ns),
            other_run_queue_ns: time_runs(&hooks::OTHER_RUN_QUEUE, run_ns),
        }
    }
}

/// The time of a run of each hook's probe.
fn time_runs(hooks: &[&str], run_ns: f64) -> f64 {
    hooks.len() as f64 * run_ns
}
