//! All requests, and completions kept back by queues.

use std::ops::{Index, IndexMut};

use crate::block::request::Request;
use crate::core::basics::RequestId;
use crate::core::parts::Parts;

/// Requests by number; numbers are used again after a request has ended.
#[derive(Debug)]
pub(crate) struct Requests {
    all: Vec<Request>,
    free: Vec<RequestId>,
    /// Finished requests held back, by queue; empty if no queue holds any back.
    pub(super) collected: Vec<Vec<RequestId>>,
    /// Requests that a drive has and has not ended, by queue.
    pub(super) unended: Vec<u32>,
    /// Flushes by queue.
    pub(super) flush_queues: Vec<FlushQueue>,
}

/// Flush requests of one hardware queue.
#[derive(Clone, Debug, Default)]
pub(super) struct FlushQueue {
    /// Requests that end with the flush in the drive, which the first of them stands for. Empty: the drive has no flush.
    pub(super) running: Vec<RequestId>,
    /// Requests for the next flush.
    pub(super) pending: Vec<RequestId>,
    /// Writes under way whose flush has ended: no other flush is sent meanwhile.
    pub(super) writes_after_flush: u32,
    /// Parts of the first running request when the flush was sent.
    pub(super) parts_before: Parts,
}

impl Requests {
    /// No requests yet, and `queues` queues, of which `collecting` hold completions back.
    pub(crate) fn new(queues: usize, collecting: usize) -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            collected: vec![Vec::new(); collecting],
            unended: vec![0; queues],
            flush_queues: vec![FlushQueue::default(); queues],
        }
    }

    /// Returns the number of a free place for a request; the place keeps an earlier request's content.
    #[inline]
    pub(crate) fn allocate_request_id(&mut self) -> RequestId {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Request::default());
            self.all.len() - 1
        })
    }

    /// Frees an ended request's number for later requests.
    #[inline(always)]
    pub(crate) fn free_request_id(&mut self, request: RequestId) {
        self.free.push(request);
    }
}

impl Index<RequestId> for Requests {
    type Output = Request;

    #[inline(always)]
    fn index(&self, request: RequestId) -> &Request {
        &self.all[request]
    }
}

impl IndexMut<RequestId> for Requests {
    #[inline(always)]
    fn index_mut(&mut self, request: RequestId) -> &mut Request {
        &mut self.all[request]
    }
}
