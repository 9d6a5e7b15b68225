//! Totals from a pass over all lines.

use std::io::BufRead;

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::error::BlockTraceError;
use super::ordered::OrderedRequests;
use super::parsed::{ParsedRequests, PlacedRequest};
use super::recorded::RecordedRequests;
use super::request::TraceIo;

/// Totals for a disk, or for all disks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockTraceTotals {
    /// Read count.
    pub reads: u64,
    /// Write count.
    pub writes: u64,
    /// Trim count.
    pub trims: u64,
    /// Flush count.
    pub flushes: u64,
    /// Bytes that all reads transfer.
    pub read_bytes: u64,
    /// Bytes that all writes transfer.
    pub written_bytes: u64,
    /// Largest read in bytes; 0 without reads.
    pub largest_read: u64,
    /// Largest write in bytes; 0 without writes.
    pub largest_write: u64,
    /// First byte behind all requests.
    pub end_byte: u64,
    /// Line with the request up to `end_byte`, counted from 1; in a recording the request's number, in a binary trace the record's
    /// number by time.
    pub end_line: u64,
    /// Requests without a recorded end, flushes left out.
    pub without_end: u64,
    /// Time from the first request to the last.
    pub duration: Nanoseconds,
    /// Longest time between two requests.
    pub longest_gap: Nanoseconds,
    /// Lines with the requests before and behind the longest gap, counted from 1; 0 without a gap.
    pub lines_at_gap: [u64; 2],
    first: u64,
    last_line: u64,
}

impl BlockTraceTotals {
    /// Count over all kinds.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.trims + self.flushes
    }

    /// Time in ns on the trace's clock when the first request began.
    pub(super) fn first_time(&self) -> u64 {
        self.first
    }

    /// Totals for recorded requests, which are ordered by time.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(super) fn for_recorded_requests(
        requests: RecordedRequests,
    ) -> Result<Self, BlockTraceError> {
        let mut totals = Self::default();
        for (number, read) in (1..).zip(requests) {
            let request = read?;
            totals.add(&PlacedRequest {
                time: request.begin.0,
                line: number,
                disk: 0,
                io: request.io,
                offset: request.offset,
                bytes: request.bytes,
                ended: request.end.map(|end| end.0),
            });
        }
        Ok(totals)
    }

    pub(super) fn add(&mut self, request: &PlacedRequest) {
        if self.requests() == 0 {
            self.first = request.time;
        }
        let before = self.first.saturating_add(self.duration.0);
        let gap = Nanoseconds(request.time.saturating_sub(before));
        if gap > self.longest_gap {
            self.longest_gap = gap;
            self.lines_at_gap = [self.last_line, request.line];
        }
        self.last_line = request.line;
        self.duration = Nanoseconds(request.time - self.first);
        let (count, bytes, largest) = match request.io {
            TraceIo::Read => (
                &mut self.reads,
                Some(&mut self.read_bytes),
                Some(&mut self.largest_read),
            ),
            TraceIo::Write => (
                &mut self.writes,
                Some(&mut self.written_bytes),
                Some(&mut self.largest_write),
            ),
            TraceIo::Trim => (&mut self.trims, None, None),
            TraceIo::Flush => (&mut self.flushes, None, None),
        };
        *count += 1;
        if let Some(bytes) = bytes {
            *bytes = bytes.saturating_add(request.bytes);
        }
        if let Some(largest) = largest {
            *largest = request.bytes.max(*largest);
        }
        self.without_end += u64::from(request.ended.is_none() && request.io != TraceIo::Flush);
        let end = request.offset + request.bytes;
        if end > self.end_byte {
            (self.end_byte, self.end_line) = (end, request.line);
        }
    }
}

/// A traced disk or file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TracedDisk {
    /// Name in the trace: `259,0`, host and number, or file.
    pub name: String,
    /// Request count.
    pub requests: u64,
}

/// Findings from a pass over a trace.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) disks: Vec<TracedDisk>,
    /// Totals by disk.
    pub(super) by_disk: Vec<BlockTraceTotals>,
    /// Totals for all disks together.
    pub(super) all: BlockTraceTotals,
    /// Number of the last line, if it lacks a line feed.
    pub(super) unended_line: Option<u64>,
    /// Requests behind later ones, on any disk.
    pub(super) misplaced: u64,
    /// Requests behind later ones on the same disk, by disk.
    pub(super) misplaced_by_disk: Vec<u64>,
}

/// Reads a trace from end to end, and checks all lines or records.
///
/// # Errors
/// A line or record cannot be understood or stands at the wrong place, or there is no request.
pub(super) fn scan_trace<R: BufRead>(
    requests: ParsedRequests<R>,
    origin: &str,
) -> Result<Scan, BlockTraceError> {
    let mut ordered = OrderedRequests::new(requests, None);
    let mut scan = Scan::default();
    while let Some(request) = (ordered.next_request()).map_err(|e| e.in_trace(origin))? {
        if scan.by_disk.len() <= request.disk {
            scan.by_disk.resize_with(request.disk + 1, Default::default);
        }
        scan.by_disk[request.disk].add(&request);
        scan.all.add(&request);
    }
    let parsed = ordered.parsed();
    if scan.all.requests() == 0 {
        let message = format!("no request in {}", parsed.describe_length());
        return Err(BlockTraceError::for_whole_trace(origin, message));
    }
    scan.unended_line = parsed.unended_line();
    scan.misplaced = ordered.misplaced();
    scan.misplaced_by_disk = (0..scan.by_disk.len())
        .map(|disk| ordered.misplaced_of_disk(disk))
        .collect();
    scan.disks = (parsed.disk_names().iter())
        .zip(&scan.by_disk)
        .map(|(name, totals)| TracedDisk {
            name: name.clone(),
            requests: totals.requests(),
        })
        .collect();
    Ok(scan)
}
