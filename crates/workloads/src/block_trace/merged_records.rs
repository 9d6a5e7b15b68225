//! Records from blktrace's files, a file per CPU, merged by time. One record per file is held.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::BufRead;

use super::blkparse::{RequestAction, SECTOR};
use super::error::BlockTraceError;
use super::line::{LineEnd, LineRequest, TraceLine, multiply};
use super::record_file::{RecordFile, TraceRecord};
use super::request::TraceIo;

/// Bits below the major number in a device's number (`MINORBITS`, Linux 6.12).
const MINOR_BITS: u32 = 20;

/// Reads several files as one trace.
#[derive(Debug)]
pub(super) struct MergedRecords<R> {
    files: Vec<RecordFile<R>>,
    /// Next records, one per file, with the file's number.
    heads: BinaryHeap<Reverse<(TraceRecord, usize)>>,
    action: RequestAction,
    /// Numbers of files to read the next record from.
    unread: std::ops::Range<usize>,
    /// Record count so far.
    count: u64,
    /// The last record's device, and `disk` as the name.
    device: Option<u32>,
    disk: String,
}

impl<R: BufRead> MergedRecords<R> {
    pub(super) fn new(files: Vec<RecordFile<R>>, action: RequestAction) -> Self {
        let unread = 0..files.len();
        Self {
            files,
            heads: BinaryHeap::new(),
            action,
            unread,
            count: 0,
            device: None,
            disk: String::new(),
        }
    }

    /// Record count so far.
    pub(super) fn record_count(&self) -> u64 {
        self.count
    }

    /// The next record's event by time; `None` after the last.
    ///
    /// # Errors
    /// A record is damaged, or has a size beyond any drive's.
    pub(super) fn next_event(&mut self) -> Result<Option<TraceLine<'_>>, BlockTraceError> {
        for number in std::mem::take(&mut self.unread) {
            if let Some(record) = self.files[number].next_record()? {
                self.heads.push(Reverse((record, number)));
            }
        }
        let Some(Reverse((record, number))) = self.heads.pop() else {
            return Ok(None);
        };
        self.count += 1;
        self.unread = number..number + 1;
        self.name_disk(record.device);
        (describe_record(&record, self.action, &self.disk))
            .map(Some)
            .map_err(|message| self.files[number].explain_problem(record.begins_at, &message))
    }

    fn name_disk(&mut self, device: u32) {
        if self.device != Some(device) {
            let minor = device & ((1 << MINOR_BITS) - 1);
            self.disk = format!("{},{minor}", device >> MINOR_BITS);
            self.device = Some(device);
        }
    }
}

/// A record's event for a disk. A flush has no place, so no end is found.
fn describe_record<'a>(
    record: &TraceRecord,
    action: RequestAction,
    disk: &'a str,
) -> Result<TraceLine<'a>, String> {
    let TraceRecord { time, sector, .. } = *record;
    if record.ends_request() {
        let offset = multiply(sector, SECTOR, "sector")?;
        return Ok(TraceLine::End(LineEnd { disk, time, offset }));
    }
    let Some(io) = record
        .io()
        .filter(|_| record.request_action() == Some(action))
    else {
        return Ok(TraceLine::Other);
    };
    let (offset, bytes) = match io {
        TraceIo::Flush => (0, 0),
        _ => (
            multiply(sector, SECTOR, "sector")?,
            record.sectors() * SECTOR,
        ),
    };
    let request = LineRequest {
        disk,
        time,
        io,
        offset,
        bytes,
        ended: None,
    };
    request.check_size_and_end()?;
    Ok(TraceLine::Request(request))
}

/// Chooses the action for requests: dispatch, or queue if the files' begins lack dispatches.
///
/// # Errors
/// A file is damaged; no file has either in the first `limit` bytes.
pub(super) fn choose_action_by_records<R: BufRead>(
    files: impl Iterator<Item = Result<RecordFile<R>, BlockTraceError>>,
    limit: u64,
    origin: &str,
) -> Result<RequestAction, BlockTraceError> {
    let mut found = None;
    for opened in files {
        let mut file = opened?;
        while file.offset() < limit
            && let Some(record) = file.next_record()?
        {
            match record.request_action() {
                Some(RequestAction::Dispatch) => return Ok(RequestAction::Dispatch),
                Some(action) => found = Some(action),
                None => {}
            }
        }
    }
    found.ok_or_else(|| BlockTraceError::for_whole_trace(origin, super::format::WITHOUT_REQUESTS))
}
