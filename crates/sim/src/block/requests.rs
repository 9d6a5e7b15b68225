//! All requests, and completions kept back by queues.

use std::ops::{Index, IndexMut};

use crate::block::request::Request;
use crate::core::basics::RequestId;

/// Requests by number; numbers are used again after a request has ended.
#[derive(Debug)]
pub(crate) struct Requests {
    all: Vec<Request>,
    free: Vec<RequestId>,
    /// Completions by collecting queue; empty where no queue collects.
    pub(super) collected: Vec<Vec<RequestId>>,
}

impl Requests {
    /// No requests, and `queues` collecting queues.
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            collected: vec![Vec::new(); queues],
        }
    }

    /// Makes room for a request.
    #[inline]
    pub(crate) fn add(&mut self) -> RequestId {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Request::default());
            self.all.len() - 1
        })
    }

    /// Frees an ended request's number.
    #[inline(always)]
    pub(crate) fn remove(&mut self, request: RequestId) {
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
