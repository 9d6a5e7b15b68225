//! Requests on their way.

use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::parts::{Part, Parts, Work};

/// What is special about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestKind {
    #[default]
    Plain,
    /// It flushes the drive, and is none of the job's reads and writes.
    Flush,
    /// A write that is done when its data are on the media (`REQ_FUA`).
    Through,
    /// The same, in a system call that flushes the drive as well before it returns.
    Synchronous,
    /// A read or write that was done by the page cache, without the drive.
    Cached,
    /// The page cache reads or writes back, and it is none of a job's reads and writes.
    WriteBack,
}

/// A request on its way. What one drive of several has of it, a piece, is a request of its own until
/// its completion interrupt has been served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) task: TaskId,
    pub(crate) direction: Direction,
    pub(crate) kind: RequestKind,
    /// The CPU that submitted the request.
    pub(super) issued_on: CpuId,
    /// The drive that has the request.
    pub(super) drive: usize,
    /// The CPU that takes the completion interrupt.
    pub(super) completes_on: CpuId,
    /// The request of which this one is a piece.
    pub(super) whole: Option<RequestId>,
    /// Pieces that the drives have not finished, and those whose interrupt has not been served.
    pub(super) unserved: u32,
    pub(super) undelivered: u32,
    pub(crate) bytes: u64,
    /// When the submission began.
    begun: u64,
    /// Parts of the latency, up to `cut`.
    parts: Parts,
    /// Time up to which the latency is attributed.
    cut: u64,
    /// How long the task's CPU takes to hear of the completion.
    ipi: u64,
}

impl Request {
    /// A request in one piece, of which `cpu` began the submission at a time.
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

    /// A piece of this request, which has the number `whole`.
    pub(super) fn piece_of(&self, whole: RequestId, kind: RequestKind) -> Self {
        Self {
            whole: Some(whole),
            kind,
            ..*self
        }
    }

    /// Number of the request of which this one is a piece; `own` if it is none.
    pub(crate) fn number_of_whole(&self, own: RequestId) -> RequestId {
        self.whole.unwrap_or(own)
    }

    /// Latency in ns of a request that ends now.
    #[inline(always)]
    pub(crate) fn latency(&self, now: u64) -> u64 {
        let latency = now - self.begun;
        debug_assert_eq!(self.parts.total(), latency);
        latency
    }

    /// Parts of the latency, up to [`Request::attributed_until`].
    #[inline(always)]
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Time up to which the latency is attributed.
    pub(crate) fn attributed_until(&self) -> u64 {
        self.cut
    }

    /// Attributes the time until `until` to one part.
    #[inline(always)]
    pub(crate) fn attribute(&mut self, part: Part, until: u64) {
        self.parts.add(part, until - self.cut);
        self.cut = until;
    }

    /// Attributes the time until `until` to work for a part, of which a CPU executed `executed` ns, and to waiting.
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

    /// Attributes the time up to now, the end of a completion interrupt on a CPU that has been awake since `awake_since`.
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

    /// The CPU of the task hears of the completion after `ipi` ns.
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

    /// Attributes the time in which the system call waited for another request, which has ended.
    pub(crate) fn attribute_awaited(&mut self, awaited: &Self) {
        if awaited.begun == self.cut {
            self.parts.append(&awaited.parts);
        } else {
            // It was on its way before, or went off while another one was waited for.
            let waited = awaited.cut.saturating_sub(self.cut);
            self.parts.add(Part::Queueing, waited);
        }
        self.cut = self.cut.max(awaited.cut);
        self.ipi = awaited.ipi;
    }

    /// Adds the flush at the end of the system call to the latency.
    pub(crate) fn append_flush(&mut self, flush: &Self) {
        self.parts.append(&flush.parts);
    }

    /// Takes over the way of the last piece, which has been delivered.
    pub(super) fn end_with(&mut self, piece: &Self) {
        self.parts = piece.parts;
        self.cut = piece.cut;
    }
}

impl Default for Request {
    /// One in one piece.
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
