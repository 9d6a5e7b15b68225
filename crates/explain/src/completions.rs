//! Requests at their issue and at their completion, before the parts are known.

use wakepath_trace::recording::Block;

use crate::cpu::{HANDLER_NS, Handler, Sender};
use crate::queueing::Origin;

/// A request at its issue.
#[derive(Clone, Copy)]
pub(crate) struct Issue {
    pub(crate) time: u64,
    pub(crate) gap: Option<u64>,
    pub(crate) in_flight: u32,
    pub(crate) bytes: u32,
    pub(crate) origin: Option<Origin>,
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
    /// A bio was found that the flush served.
    pub(crate) has_bio: bool,
}

impl CompletedFlush {
    /// Whether a request that ends on this CPU may have waited for the flush.
    pub(crate) const fn may_have_ended_at(&self, time: u64, on: u32) -> bool {
        self.completion.cpu == on && time.saturating_sub(self.completion.time) <= HANDLER_NS
    }
}
