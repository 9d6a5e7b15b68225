//! What the probes add to the parts that they measure.

use serde::Serialize;

/// Time that the probes on a request's way add to each part, in ns; estimated from the mean run of a probe.
///
/// A probe takes its time stamp first, so that the rest of its run falls into the part behind. What runs while the drive
/// works, such as a switch to the idle task, adds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProbeCost {
    /// Mean run time of a probe, in ns.
    pub run_ns: f64,
    /// Added before the issue, by `block_bio_queue` and `block_getrq`; one more where a scheduler takes requests.
    pub queued_ns: f64,
    /// Added from issue to interrupt, by `block_rq_issue`.
    pub out_ns: f64,
    /// Added from interrupt to completion, by `cpu_idle`, `irq_handler_entry` and `softirq_entry`.
    pub interrupt_ns: f64,
    /// Added from completion to wake-up, by `block_rq_complete`.
    pub hand_over_ns: f64,
    /// Added from the wake-up until the task runs, by `sched_waking`, `ipi_send_cpu` and `sched_wakeup`.
    pub run_queue_ns: f64,
}

impl ProbeCost {
    /// Estimates all parts from the mean run of a probe in ns.
    pub fn new(run_ns: f64) -> Self {
        Self {
            run_ns,
            queued_ns: 2.0 * run_ns,
            out_ns: run_ns,
            interrupt_ns: 3.0 * run_ns,
            hand_over_ns: run_ns,
            run_queue_ns: 3.0 * run_ns,
        }
    }
}
