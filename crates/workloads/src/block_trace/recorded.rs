//! Requests of a recording, which another crate reads: recordings are in a format of their own.

use std::fmt;

use super::error::BlockTraceError;
use super::request::BlockTraceRequest;

/// Requests of a recording's disk, read one after the other.
pub type RecordedRequests =
    Box<dyn Iterator<Item = Result<BlockTraceRequest, BlockTraceError>> + Send>;

/// A recording that can be read as a trace any number of times. It holds no requests.
pub trait RequestRecording: fmt::Debug + Send + Sync {
    /// Begins to read the requests of the disk in order of time, with times on the recording's clock.
    ///
    /// # Errors
    /// The recording cannot be opened. The iterator gives an error if it cannot be read on.
    fn read_requests(&self) -> Result<RecordedRequests, BlockTraceError>;
}
