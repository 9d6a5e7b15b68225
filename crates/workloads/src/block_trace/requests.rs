//! Requests as a workload gets them: a disk's, from a time on, in order.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Cursor};
use std::sync::Arc;

use wakepath_units::Nanoseconds;

use super::error::BlockTraceError;
use super::ordered::OrderedRequests;
use super::parsed::PlacedRequest;
use super::recorded::RecordedRequests;
use super::request::BlockTraceRequest;

/// Source of requests.
pub(super) enum RequestStream {
    File(Box<OrderedRequests<BufReader<File>>>),
    Text(Box<OrderedRequests<Cursor<Arc<[u8]>>>>),
    Recorded(RecordedRequests),
}

impl fmt::Debug for RequestStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Text(_) => "Text",
            Self::Recorded(_) => "Recorded",
        })
    }
}

impl RequestStream {
    /// The next request; `origin` names the trace in errors.
    fn next_request(&mut self, origin: &str) -> Result<Option<BlockTraceRequest>, BlockTraceError> {
        let placed = match self {
            Self::File(ordered) => ordered.next_request(),
            Self::Text(ordered) => ordered.next_request(),
            Self::Recorded(requests) => return requests.next().transpose(),
        };
        let request = placed.map_err(|problem| problem.in_trace(origin))?;
        Ok(request.map(BlockTraceRequest::from))
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
            match self.stream.next_request(&self.origin) {
                Ok(Some(request)) if request.begin.0 < self.from => {}
                Ok(Some(request)) => return Some(Ok(request.with_times_from(self.from))),
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
