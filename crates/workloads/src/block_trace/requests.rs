//! Requests as a workload gets them: a disk's, from a time on, in order.

use std::fs::File;
use std::io::{BufReader, Cursor};
use std::sync::Arc;

use wakepath_units::Nanoseconds;

use super::error::{BlockTraceError, LineProblem};
use super::ordered::OrderedRequests;
use super::parsed::PlacedRequest;
use super::request::BlockTraceRequest;

/// Source of requests.
#[derive(Debug)]
pub(super) enum RequestStream {
    File(Box<OrderedRequests<BufReader<File>>>),
    Text(Box<OrderedRequests<Cursor<Arc<[u8]>>>>),
    Recorded {
        requests: Arc<[BlockTraceRequest]>,
        next: usize,
    },
}

impl RequestStream {
    fn next_request(&mut self) -> Result<Option<BlockTraceRequest>, LineProblem> {
        match self {
            Self::File(ordered) => Ok(ordered.next_request()?.map(BlockTraceRequest::from)),
            Self::Text(ordered) => Ok(ordered.next_request()?.map(BlockTraceRequest::from)),
            Self::Recorded { requests, next } => {
                let request = requests.get(*next).copied();
                *next += 1;
                Ok(request)
            }
        }
    }
}

impl From<PlacedRequest> for BlockTraceRequest {
    fn from(placed: PlacedRequest) -> Self {
        Self {
            begin: Nanoseconds(placed.time),
            io: placed.io,
            offset: placed.offset,
            bytes: placed.bytes,
            end: placed.ended.map(Nanoseconds),
        }
    }
}

/// Requests from the begin of a window on, read singly. Times count from the begin.
#[derive(Debug)]
pub struct BlockTraceRequests {
    stream: RequestStream,
    origin: String,
    /// Begin of the window in ns, on the trace's clock.
    from: u64,
    is_over: bool,
}

impl BlockTraceRequests {
    pub(super) fn new(stream: RequestStream, origin: &str, from: u64) -> Self {
        Self {
            stream,
            origin: origin.to_owned(),
            from,
            is_over: false,
        }
    }
}

impl Iterator for BlockTraceRequests {
    type Item = Result<BlockTraceRequest, BlockTraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.stream.next_request() {
                Ok(Some(request)) if request.begin.0 < self.from => {}
                Ok(Some(request)) => return Some(Ok(request.with_times_from(self.from))),
                Ok(None) => self.is_over = true,
                Err(problem) => {
                    self.is_over = true;
                    return Some(Err(problem.in_trace(&self.origin)));
                }
            }
        }
        None
    }
}
