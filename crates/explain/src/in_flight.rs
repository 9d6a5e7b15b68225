//! Requests of a drive from issue to completion.

use wakepath_trace::recording::Block;

use crate::cpu::{HANDLER_NS, Handler, Sender};
use crate::flushes::RecentWrites;
use crate::queueing::Origin;

/// A request that was issued and has not completed. Times in ns.
#[derive(Clone, Copy)]
pub(crate) struct Issue {
    pub(crate) time: u64,
    pub(crate) gap: Option<u64>,
    pub(crate) in_flight: u32,
    pub(crate) bytes: u32,
    pub(crate) origin: Option<Origin>,
}

impl Issue {
    /// Whether an issue of this block, without new bios, is the same request again: a driver without room put the request back
    /// (`BLK_STS_RESOURCE`). Bios tell requests apart only where bios are recorded.
    pub(crate) const fn was_put_back(&self, block: &Block) -> bool {
        self.origin.is_some() && self.bytes == block.bytes
    }

    /// Moves the issue to a later time; the time between counts as the I/O scheduler's, which held the request.
    pub(crate) fn note_issue_after_put_back(&mut self, time: u64) {
        if let Some(origin) = &mut self.origin {
            origin.parts.scheduler += time.saturating_sub(self.time);
        }
        self.time = self.time.max(time);
    }
}

/// A completion whose issue is known.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) issue: Issue,
    pub(crate) block: Block,
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    /// The handler that completed the request, and the CPU that asked for the completion.
    pub(crate) running: Option<Handler>,
    pub(crate) sender: Option<Sender>,
}

/// A drive's last completed flush. Requests for flush bios are never issued themselves: they end right behind the flush that
/// served them.
#[derive(Clone, Copy)]
pub(crate) struct CompletedFlush {
    /// Index of the flush, which stands for the first bio's wait.
    pub(crate) request: usize,
    pub(crate) completion: Completion,
    /// When the drive's flush before this one ended, and the flush before that, in ns.
    pub(crate) ended_before: Option<u64>,
    pub(crate) ended_two_before: Option<u64>,
    /// A bio was found that the flush served.
    pub(crate) has_bio: bool,
}

impl CompletedFlush {
    /// Whether a request that ends on this CPU may have waited for the flush.
    pub(crate) const fn may_have_ended_at(&self, time: u64, on: u32) -> bool {
        self.completion.cpu == on && time.saturating_sub(self.completion.time) <= HANDLER_NS
    }
}

/// A drive with its requests.
#[derive(Default)]
pub(crate) struct Device {
    pub(crate) in_flight: u32,
    pub(crate) completed: Option<u64>,
    pub(crate) flush: Option<CompletedFlush>,
    pub(crate) writes: RecentWrites,
}
