//! Requests on their way.

use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::parts::Parts;

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
    /// The CPU that submitted it.
    pub(crate) issued_on: CpuId,
    /// The drive that has it.
    pub(crate) drive: usize,
    /// The CPU that takes its completion interrupt.
    pub(crate) completes_on: CpuId,
    /// The request that it is a piece of.
    pub(crate) whole: Option<RequestId>,
    /// Pieces that the drives have not finished, and those whose interrupt has not been served.
    pub(crate) unserved: u32,
    pub(crate) undelivered: u32,
    pub(crate) bytes: u64,
    /// When its submission began.
    pub(crate) begun: u64,
    /// Its latency so far, up to `cut`.
    pub(crate) parts: Parts,
    /// Up to when its time is attributed.
    pub(crate) cut: u64,
    /// How long the task's CPU takes to hear of the completion.
    pub(crate) ipi: u64,
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
