//! CPU work for an I/O, and the CPUs that do the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// CPU work for an I/O, and the CPUs that do the work.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IoPath {
    /// CPU work per I/O, in cycles of the biggest core.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub kcycles_per_io: Figure,
    /// Extra work per KiB beyond 4 before submission: pinning and mapping pages, or copying. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles/KiB", "maximum" = 1e3))]
    #[serde(default)]
    pub kcycles_per_kib: Figure,
    /// Extra cost of a buffered 4-KiB read: finding, allocating, mapping and copying a page of the page cache. Absent:
    /// 0.
    #[schemars(extend("unit" = "1000 cycles", "see" = "background/model.md#the-page-cache"))]
    #[serde(default)]
    pub page_cache_kcycles: Figure,
    /// Work by the program between two I/Os, outside both latencies. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub program_kcycles: Figure,
    /// Extra cost per I/O of an asynchronous engine with a system call each for submission and completion: half before
    /// submission and half after completion. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub asynchronous_kcycles: Figure,
    /// Extra cost of a flush over a read before submission: a kernel thread sends the flush (`kworker/N:1H`,
    /// `blk_mq_requeue_work()`). Absent: 0.
    #[schemars(extend("unit" = "1000 cycles", "see" = "background/model.md#flushes"))]
    #[serde(default)]
    pub flush_kcycles: Figure,
    /// Share of the work by the task until the drive has the request and the task sleeps. The three shares add up to 1.
    #[schemars(extend("maximum" = 1.0))]
    pub submission_share: Figure,
    /// Part of `submission_share` for going to sleep, spent only by a task that waits. Absent: 0; every submission
    /// costs the same.
    #[schemars(extend("maximum" = 1.0, "see" = "background/model.md#work-at-depth"))]
    #[serde(default)]
    pub deactivation_share: Figure,
    /// Part of `submission_share` for telling a drive of a request: a virtual machine's exit to its host. Direct requests save
    /// the part while each drive has others from the queue. Absent: 0.
    #[schemars(extend("maximum" = 1.0, "see" = "background/model.md#drives-of-virtual-machines"))]
    #[serde(default)]
    pub doorbell_share: Figure,
    /// Share in the completion interrupt, waking the task included.
    #[schemars(extend("maximum" = 1.0))]
    pub interrupt_share: Figure,
    /// Part of `interrupt_share` for waking the task, spent only if the task sleeps. Absent: 0.
    #[schemars(extend("maximum" = 1.0))]
    #[serde(default)]
    pub reactivation_share: Figure,
    /// Share by the woken task until it is back in user space.
    #[schemars(extend("maximum" = 1.0))]
    pub resume_share: Figure,
    /// Part of `resume_share`: the context switch, once for all requests that are completed when the task runs again.
    /// Absent: 0.
    #[schemars(extend("maximum" = 1.0))]
    #[serde(default)]
    pub switch_share: Figure,
    /// CPU for the completion interrupt.
    pub completion: Completion,
    /// Source of the table's plain figures.
    pub source: String,
}

impl IoPath {
    /// The figures that `wakepath calibrate` finds, by their keys in a machine file.
    pub(super) fn calibrated_figures_mut(&mut self) -> [(&'static str, &mut Figure); 11] {
        [
            ("kcycles_per_io", &mut self.kcycles_per_io),
            ("program_kcycles", &mut self.program_kcycles),
            ("asynchronous_kcycles", &mut self.asynchronous_kcycles),
            ("submission_share", &mut self.submission_share),
            ("deactivation_share", &mut self.deactivation_share),
            ("doorbell_share", &mut self.doorbell_share),
            ("interrupt_share", &mut self.interrupt_share),
            ("reactivation_share", &mut self.reactivation_share),
            ("resume_share", &mut self.resume_share),
            ("switch_share", &mut self.switch_share),
            ("completion.when_empty", &mut self.completion.when_empty),
        ]
    }
}

/// CPU for the completion interrupt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// A fixed CPU that takes all completions. Absent: chosen by the queue.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Hardware queues per drive, each with an interrupt. With fewer queues than CPUs each serves consecutive CPUs, and
    /// interrupts one of them. Absent: one per CPU.
    #[serde(default)]
    pub queues: Option<usize>,
    /// Further queues for polled requests (`nvme.poll_queues`), which interrupt nobody. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("see" = "reference/fio-jobs.md#polling"))]
    pub poll_queues: Option<usize>,
    /// Share of completions on the queue's CPU; the rest go to any other CPU in the cluster. Absent: 1.
    #[schemars(extend("maximum" = 1.0))]
    #[serde(default)]
    pub same_cpu_share: Figure,
    /// Completions that a queue collects before it interrupts (NVMe feature 08h, aggregation threshold), a whole
    /// number. Absent: 1.
    #[schemars(extend("minimum" = 1.0, "maximum" = 256.0))]
    #[serde(default)]
    pub coalesce: Figure,
    /// Longest wait for the first completion (aggregation time). Absent: 0.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub coalesce_us: Figure,
    /// 1: a queue interrupts once its drive has ended all of the queue's requests. Hosts of virtual machines serve queues so.
    /// Absent: 0.
    #[schemars(extend("maximum" = 1.0, "see" = "background/model.md#drives-of-virtual-machines"))]
    #[serde(default)]
    pub when_empty: Figure,
    /// Why completions go there.
    pub assumed: String,
}
