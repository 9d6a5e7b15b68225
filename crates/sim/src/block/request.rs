//! Requests between submission and completion.

use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::parts::{Part, Parts, Work};

/// Kind of a request: plain, flush, durable write, or of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestKind {
    #[default]
    Plain,
    /// A flush, which counts as neither read nor write of the job.
    Flush,
    /// A write that ends once the data are on the media (`REQ_FUA`).
    Through,
    /// Like `Through`, in a system call that flushes the drive as well before returning.
    Synchronous,
    /// A read or write that was done by the page cache, without the drive.
    Cached,
    /// The page cache's own read, write or flush, which no job has asked for directly.
    WriteBack,
}

/// A request between submission and completion. A piece, one drive's share, is a separate request until the completion
/// interrupt has been served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) task: TaskId,
    pub(crate) direction: Direction,
    pub(crate) kind: RequestKind,
    /// CPU that submitted the request.
    pub(super) issued_on: CpuId,
    /// Number of the drive that serves the request.
    pub(super) drive: usize,
    /// CPU that the completion interrupt goes to.
    pub(super) completes_on: CpuId,
    /// The whole request's number if this is a piece; `None` for a whole request.
    pub(super) whole: Option<RequestId>,
    /// Count of pieces unfinished by drives, and count of pieces with an unserved completion interrupt.
    pub(super) unserved: u32,
    pub(super) undelivered: u32,
    pub(crate) bytes: u64,
    /// Whether a task polls for the completion, and no CPU is interrupted.
    pub(super) polled: bool,
    /// Whether the request is a flush before a write, or the write after a flush: a write with `REQ_PREFLUSH`, in two parts.
    pub(super) in_flush_sequence: bool,
    /// Time in ns when the request's submission began.
    begun: u64,
    /// The request's latency by part, up to the time `cut`.
    parts: Parts,
    /// Time in ns up to which the latency is attributed to parts.
    cut: u64,
    /// Delay in ns of the inter-processor interrupt that tells the task's CPU.
    ipi: u64,
}

impl Request {
    /// A request not cut into pieces, whose submission began on `cpu` at the time `begun`.
    #[inline(always)]
    pub(crate) fn new_with_submission_begun(
        (cpu, task): (CpuId, TaskId),
        direction: Direction,
        kind: RequestKind,
        bytes: u64,
        begun: u64,
    ) -> Self {
        Self {
            task,
            direction,
            kind,
            issued_on: cpu,
            completes_on: cpu,
            bytes,
            begun,
            cut: begun,
            ..Self::default()
        }
    }

    /// A copy of this request as one drive's piece; this request's own number is `whole`.
    pub(super) fn copy_as_piece(&self, whole: RequestId, kind: RequestKind) -> Self {
        Self {
            whole: Some(whole),
            kind,
            ..*self
        }
    }

    /// Notes that the request is a part of a write with `REQ_PREFLUSH`.
    pub(crate) fn set_in_flush_sequence(&mut self) {
        self.in_flush_sequence = true;
    }

    /// CPU that submitted the request.
    pub(crate) fn submitting_cpu(&self) -> CpuId {
        self.issued_on
    }

    /// Notes whether a task polls for the completion.
    pub(crate) fn set_polled(&mut self, polled: bool) {
        self.polled = polled;
    }

    /// Sets the CPU that submits the request, where this is not the CPU that created it.
    pub(crate) fn set_issuing_cpu(&mut self, cpu: CpuId) {
        self.issued_on = cpu;
    }

    /// Number of the whole request if this is a piece, otherwise `own_id`.
    pub(crate) fn id_of_whole_or(&self, own_id: RequestId) -> RequestId {
        self.whole.unwrap_or(own_id)
    }

    /// Latency in ns of a request that ends at `now`, since the begin of its submission.
    #[inline(always)]
    pub(crate) fn latency_if_ended_at(&self, now: u64) -> u64 {
        let latency = now - self.begun;
        debug_assert_eq!(self.parts.total_ns(), latency);
        latency
    }

    /// Time in ns since the begin of the request's submission.
    pub(crate) fn latency_so_far(&self, now: u64) -> u64 {
        now - self.begun
    }

    /// The latency's parts, up to [`Request::attributed_until`].
    #[inline(always)]
    pub(crate) fn attributed_parts(&self) -> &Parts {
        &self.parts
    }

    /// Time in ns up to which the latency is attributed to parts.
    pub(crate) fn attributed_until(&self) -> u64 {
        self.cut
    }

    /// Attributes the request's time since the last cut until `until` to one part of the latency.
    #[inline(always)]
    pub(crate) fn attribute_time_until(&mut self, part: Part, until: u64) {
        self.parts.add_time(part, until - self.cut);
        self.cut = until;
    }

    /// Divides the request's time until `until`: `executed` ns went to work for a part, the rest to waiting for a CPU.
    #[inline(always)]
    pub(crate) fn attribute_work_until(
        &mut self,
        part: Part,
        until: u64,
        executed: u64,
        work: Work,
    ) {
        self.parts
            .divide_work_stretch(part, until - self.cut, executed, work);
        self.cut = until;
    }

    /// Attributes the request's time in a drive: `give` adds the parts, and returns when the drive will be done.
    #[inline(always)]
    pub(super) fn attribute_drive_time(&mut self, give: impl FnOnce(&mut Parts) -> u64) -> u64 {
        self.cut = give(&mut self.parts);
        self.cut
    }

    /// Attributes the time up to now, when a completion interrupt ends on a CPU awake since `awake_since`.
    #[inline(always)]
    pub(crate) fn attribute_completion_interrupt(
        &mut self,
        now: u64,
        (began, awake_since): (u64, u64),
        work: Work,
    ) {
        let idle_exit = awake_since.min(began).saturating_sub(self.cut);
        let waiting = began - self.cut - idle_exit;
        self.parts.add_time(Part::IdleExit, idle_exit);
        self.parts.add_time(Part::WaitingToRun, waiting);
        self.cut = began;
        self.attribute_work_until(Part::InterruptDelivery, now, now - began, work);
    }

    /// Notes that the woken task's CPU hears of the completion only after an inter-processor interrupt of `ipi_ns` ns.
    #[inline(always)]
    pub(crate) fn set_wake_up_delay(&mut self, ipi_ns: u64) {
        self.ipi = ipi_ns;
    }

    /// Attributes the time until the woken task runs, on a CPU awake since `awake_since`: interrupt, idle exit, waiting.
    #[inline(always)]
    pub(crate) fn attribute_task_wake_up(&mut self, now: u64, awake_since: u64) {
        let ipi = std::mem::take(&mut self.ipi).min(now - self.cut);
        let idle_exit = awake_since.saturating_sub(self.cut + ipi);
        let waiting = now - self.cut - ipi - idle_exit;
        self.parts.add_time(Part::InterruptDelivery, ipi);
        self.parts.add_time(Part::IdleExit, idle_exit);
        self.parts.add_time(Part::WaitingToRun, waiting);
        self.cut = now;
    }

    /// Attributes the time until `until` in which the task did not look for completed requests to waiting.
    pub(crate) fn attribute_time_not_looked_at(&mut self, until: u64) {
        let waited = until.saturating_sub(self.cut);
        self.parts.add_time(Part::WaitingToRun, waited);
        self.cut = self.cut.max(until);
    }

    /// Attributes the time that the system call waited for another request, now ended, to that request's parts.
    pub(crate) fn attribute_wait_for_request(&mut self, awaited: &Self) {
        if awaited.begun == self.cut {
            self.parts.add_parts(&awaited.parts);
        } else {
            // An awaited request sent earlier, or during another wait, counts as queueing.
            let waited = awaited.cut.saturating_sub(self.cut);
            self.parts.add_time(Part::Queueing, waited);
        }
        self.cut = self.cut.max(awaited.cut);
        self.ipi = awaited.ipi;
    }

    /// Adds the parts of the flush at the end of a write's system call to the write's latency.
    pub(crate) fn append_parts_of_flush(&mut self, flush: &Self) {
        self.parts.add_parts(&flush.parts);
    }

    /// Takes over the way of a disk call that a server's request has waited for. `before`: the parts when the call began.
    pub(crate) fn take_over_disk_call(&mut self, before: &Parts, call: &Self) {
        self.parts = *before;
        self.parts.add_parts(&call.parts);
        self.cut = call.cut;
    }

    /// Attributes the time until `leader` is where it is now: a wait for another worker until the time `begun`, then the leader's own
    /// parts since. `before`: the leader's parts at that time.
    pub(crate) fn share_stretch_of_request(&mut self, begun: u64, before: &Parts, leader: &Self) {
        self.attribute_time_until(Part::WorkerWait, begun.max(self.cut));
        self.parts.add_parts(&leader.parts.since(before));
        self.cut = leader.cut;
    }

    /// Takes over the latency parts of the last of the request's pieces, now delivered.
    pub(super) fn take_over_parts_of_piece(&mut self, last_piece: &Self) {
        self.parts = last_piece.parts;
        self.cut = last_piece.cut;
    }
}

impl Default for Request {
    /// An empty read request for task 0, not cut into pieces.
    fn default() -> Self {
        Self {
            task: 0,
            direction: Direction::Read,
            kind: RequestKind::Plain,
            issued_on: 0,
            drive: 0,
            completes_on: 0,
            whole: None,
            unserved: 1,
            undelivered: 1,
            bytes: 0,
            polled: false,
            in_flush_sequence: false,
            begun: 0,
            parts: Parts::default(),
            cut: 0,
            ipi: 0,
        }
    }
}
