//! Requests between submission and completion.

use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::parts::{Part, Parts, Work};

/// Special kinds: flushes, durable writes, the page cache's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestKind {
    #[default]
    Plain,
    /// A flush, none of the job's reads and writes.
    Flush,
    /// A write whose end is data on the media (`REQ_FUA`).
    Through,
    /// Like `Through`, in a system call that flushes the drive as well before returning.
    Synchronous,
    /// A read or write that was done by the page cache, without the drive.
    Cached,
    /// The page cache's own read or write, none of the job's.
    WriteBack,
}

/// A request between submission and completion. A piece, one drive's share, is a separate request until the completion
/// interrupt has been served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) task: TaskId,
    pub(crate) direction: Direction,
    pub(crate) kind: RequestKind,
    /// The submitting CPU.
    pub(super) issued_on: CpuId,
    /// The drive with the request.
    pub(super) drive: usize,
    /// The CPU for the completion interrupt.
    pub(super) completes_on: CpuId,
    /// The whole request, for a piece.
    pub(super) whole: Option<RequestId>,
    /// Pieces not finished by drives, and pieces whose interrupt has not been served.
    pub(super) unserved: u32,
    pub(super) undelivered: u32,
    pub(crate) bytes: u64,
    /// When the submission began.
    begun: u64,
    /// Latency by part, up to `cut`.
    parts: Parts,
    /// Latency is attributed up to this time.
    cut: u64,
    /// Delay before the task's CPU hears about the completion.
    ipi: u64,
}

impl Request {
    /// A request in one piece, whose submission `cpu` began at a time.
    #[inline(always)]
    pub(crate) fn begun(
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

    /// A piece; this request has the number `whole`.
    pub(super) fn piece_of(&self, whole: RequestId, kind: RequestKind) -> Self {
        Self {
            whole: Some(whole),
            kind,
            ..*self
        }
    }

    /// Number of the whole request for a piece, otherwise `own`.
    pub(crate) fn number_of_whole(&self, own: RequestId) -> RequestId {
        self.whole.unwrap_or(own)
    }

    /// Latency in ns if the request ends now.
    #[inline(always)]
    pub(crate) fn latency(&self, now: u64) -> u64 {
        let latency = now - self.begun;
        debug_assert_eq!(self.parts.total(), latency);
        latency
    }

    /// Latency by part, up to [`Request::attributed_until`].
    #[inline(always)]
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Latency is attributed up to this time.
    pub(crate) fn attributed_until(&self) -> u64 {
        self.cut
    }

    /// Attributes the time until `until` to one part.
    #[inline(always)]
    pub(crate) fn attribute(&mut self, part: Part, until: u64) {
        self.parts.add(part, until - self.cut);
        self.cut = until;
    }

    /// Attributes the time until `until` to work for a part, with `executed` ns on a CPU, and to waiting.
    #[inline(always)]
    pub(crate) fn attribute_work(&mut self, part: Part, until: u64, executed: u64, work: Work) {
        self.parts.add_work(part, until - self.cut, executed, work);
        self.cut = until;
    }

    /// Attributes the time in a drive: `give` adds the parts, and returns when the drive will be done.
    #[inline(always)]
    pub(super) fn attribute_drive(&mut self, give: impl FnOnce(&mut Parts) -> u64) -> u64 {
        self.cut = give(&mut self.parts);
        self.cut
    }

    /// Attributes the time up to now, when a completion interrupt ends on a CPU awake since `awake_since`.
    #[inline(always)]
    pub(super) fn attribute_interrupt(
        &mut self,
        now: u64,
        (began, awake_since): (u64, u64),
        work: Work,
    ) {
        let idle_exit = awake_since.min(began).saturating_sub(self.cut);
        let waiting = began - self.cut - idle_exit;
        self.parts.add(Part::IdleExit, idle_exit);
        self.parts.add(Part::WaitingToRun, waiting);
        self.cut = began;
        self.attribute_work(Part::InterruptDelivery, now, now - began, work);
    }

    /// The task's CPU hears about the completion after `ipi` ns.
    #[inline(always)]
    pub(crate) fn delay_wake_up(&mut self, ipi: u64) {
        self.ipi = ipi;
    }

    /// Attributes the time until the task goes on, on a CPU that has been awake since `awake_since`.
    #[inline(always)]
    pub(crate) fn attribute_wake_up(&mut self, now: u64, awake_since: u64) {
        let ipi = std::mem::take(&mut self.ipi).min(now - self.cut);
        let idle_exit = awake_since.saturating_sub(self.cut + ipi);
        let waiting = now - self.cut - ipi - idle_exit;
        self.parts.add(Part::InterruptDelivery, ipi);
        self.parts.add(Part::IdleExit, idle_exit);
        self.parts.add(Part::WaitingToRun, waiting);
        self.cut = now;
    }

    /// Attributes the time while the system call waited for another request, now ended.
    pub(crate) fn attribute_awaited(&mut self, awaited: &Self) {
        if awaited.begun == self.cut {
            self.parts.append(&awaited.parts);
        } else {
            // The awaited request was sent before, or during another wait.
            let waited = awaited.cut.saturating_sub(self.cut);
            self.parts.add(Part::Queueing, waited);
        }
        self.cut = self.cut.max(awaited.cut);
        self.ipi = awaited.ipi;
    }

    /// Adds the flush at the system call's end to the latency.
    pub(crate) fn append_flush(&mut self, flush: &Self) {
        self.parts.append(&flush.parts);
    }

    /// Takes over the latency parts of the last piece, now delivered.
    pub(super) fn end_with(&mut self, piece: &Self) {
        self.parts = piece.parts;
        self.cut = piece.cut;
    }
}

impl Default for Request {
    /// A request in one piece.
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
            begun: 0,
            parts: Parts::default(),
            cut: 0,
            ipi: 0,
        }
    }
}
