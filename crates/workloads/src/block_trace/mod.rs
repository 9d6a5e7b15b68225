//! Block traces as workloads: requests that a drive got elsewhere, at the times when they came.
//!
//! [`BlockTrace::load`] tells the format by the first lines, and reads a trace once from end to end: every line is checked
//! before anything is simulated. [`BlockTrace::requests`] reads the trace again, request by request. Neither holds more
//! than 65,536 requests, so that a trace may be longer than the memory.
//!
//! ```
//! use wakepath_workloads::block_trace::{BlockTrace, BlockTraceOptions};
//!
//! let text = "fio version 3 iolog\n10 f read 0 4096\n250 f write 4096 8192\n";
//! let trace = BlockTrace::from_text(text.as_bytes(), "log", &BlockTraceOptions::default())?;
//! assert_eq!(trace.totals.read_bytes, 4096);
//! let times: Vec<u64> = trace.requests()?.map(|r| r.map(|r| r.begin.0)).collect::<Result<_, _>>()?;
//! assert_eq!(times, [0, 240_000]);
//! # Ok::<(), wakepath_workloads::block_trace::BlockTraceError>(())
//! ```

mod blkparse;
mod disk;
mod error;
mod fio_log;
mod format;
mod job_log;
mod line;
mod lines;
mod msr;
mod ordered;
mod parsed;
mod recorded;
mod request;
mod requests;
mod totals;
mod trace_file;

#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use wakepath_units::Nanoseconds;

pub use disk::choose_disk;
pub use error::BlockTraceError;
pub use fio_log::FioLogVersion;
pub use format::BlockTraceFormat;
pub use job_log::{JobLog, JobLogOptions, JobLogRequest, JobLogRequests, JobLogStart};
pub use recorded::{RecordedRequests, RequestRecording};
pub use request::{BlockTraceRequest, TraceIo};
pub use requests::BlockTraceRequests;
pub use totals::{BlockTraceTotals, TracedDisk};

use format::{BEGIN_BYTES, FileKind, tell_file_kind};
use ordered::OrderedRequests;
use parsed::ParsedRequests;
use requests::RequestStream;
use totals::{Scan, scan_trace};
use trace_file::{READ_BYTES, open_file};

/// Seconds of a day.
const SECONDS_OF_DAY: u64 = 86_400;

/// A longer time without any request is taken for a damaged time.
const LONGEST_LIKELY_GAP: Nanoseconds = Nanoseconds::from_secs(SECONDS_OF_DAY);

/// What is taken of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTraceOptions {
    /// Name of the disk, or the end of the name behind a comma; `None`: the disk with most requests, or all files.
    pub disk: Option<String>,
    /// Time from the disk's first request to the begin of the window.
    pub from: Nanoseconds,
    /// Whether a request waits for all that had ended before it in the trace.
    pub is_dependent: bool,
}

impl BlockTraceOptions {
    /// Whether anything is asked for.
    pub fn any_is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// Where a trace lies.
#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Text(Arc<[u8]>),
    Recording(Arc<dyn RequestRecording>),
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(path), Self::File(other)) => path == other,
            (Self::Text(text), Self::Text(other)) => text == other,
            (Self::Recording(recording), Self::Recording(other)) => Arc::ptr_eq(recording, other),
            _ => false,
        }
    }
}

impl Eq for Source {}

/// A block trace, checked from end to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockTrace {
    /// Name of the trace for messages.
    pub origin: String,
    /// Format of the trace.
    pub format: BlockTraceFormat,
    /// Disks or files in the trace, in order of their first requests.
    pub disks: Vec<TracedDisk>,
    /// Name of the disk whose requests count; `None`: all.
    pub disk: Option<String>,
    /// Whether the disk was chosen for its number of requests, and not by the caller.
    pub is_busiest_of_several: bool,
    /// Totals of the requests that count, from the first request on.
    pub totals: BlockTraceTotals,
    /// Time from the first request to the begin of the window.
    pub from: Nanoseconds,
    /// Whether a request waits for all that had ended before it in the trace.
    pub is_dependent: bool,
    /// The last line, if it has no end and the trace may be cut off.
    pub unended_line: Option<u64>,
    #[serde(skip)]
    source: Source,
    #[serde(skip)]
    disk_number: Option<usize>,
}

impl BlockTrace {
    /// Reads the trace at `path`; `None` if the file is no block trace.
    ///
    /// # Errors
    /// The file cannot be read or has to be converted first; a line is damaged, has a size that no drive takes, or stands too
    /// far from its place in time; the trace has no request, or not what `options` ask for.
    pub fn load(path: &Path, options: &BlockTraceOptions) -> Result<Option<Self>, BlockTraceError> {
        let origin = path.display().to_string();
        let mut begin = Vec::new();
        (open_file(path, &origin)?.take(BEGIN_BYTES))
            .read_to_end(&mut begin)
            .map_err(|e| BlockTraceError::for_whole_trace(&origin, format!("cannot read: {e}")))?;
        let Some(format) = require_readable_format(&begin, &origin)? else {
            return Ok(None);
        };
        let reader = BufReader::with_capacity(READ_BYTES, open_file(path, &origin)?);
        let wants_ends = options.is_dependent;
        let scan = scan_trace(reader, format, wants_ends, &origin)?;
        Self::new(
            &origin,
            format,
            Source::File(path.to_owned()),
            scan,
            options,
        )
        .map(Some)
    }

    /// Reads a trace from memory; see [`BlockTrace::load`].
    ///
    /// # Errors
    /// As [`BlockTrace::load`], and if the text is no block trace.
    pub fn from_text(
        text: &[u8],
        origin: &str,
        options: &BlockTraceOptions,
    ) -> Result<Self, BlockTraceError> {
        let begin = &text[..text.len().min(BEGIN_BYTES as usize)];
        let format = require_readable_format(begin, origin)?.ok_or_else(|| {
            let message = "is no block trace: expected text of blkparse, fio's iolog or an MSR Cambridge trace";
            BlockTraceError::for_whole_trace(origin, message)
        })?;
        let scan = scan_trace(text, format, options.is_dependent, origin)?;
        Self::new(origin, format, Source::Text(text.into()), scan, options)
    }

    /// The requests of a recording's disk, which are read once here. `disks`: all disks of the recording; `disk`: the one.
    ///
    /// # Errors
    /// The recording cannot be read, or there is no request, or none in the window.
    pub fn from_recording(
        origin: &str,
        disks: Vec<TracedDisk>,
        disk: usize,
        recording: Arc<dyn RequestRecording>,
        options: &BlockTraceOptions,
    ) -> Result<Self, BlockTraceError> {
        let totals = BlockTraceTotals::for_recorded_requests(recording.read_requests()?)?;
        if totals.requests() == 0 {
            let message = "no request of a drive: record with block events";
            return Err(BlockTraceError::for_whole_trace(origin, message));
        }
        let trace = Self {
            origin: origin.to_owned(),
            format: BlockTraceFormat::Recording,
            is_busiest_of_several: options.disk.is_none() && disks.len() > 1,
            disk: disks.get(disk).map(|disk| disk.name.clone()),
            disks,
            totals,
            from: options.from,
            is_dependent: options.is_dependent,
            unended_line: None,
            source: Source::Recording(recording),
            disk_number: None,
        };
        trace.check_window_and_ends()?;
        Ok(trace)
    }

    fn new(
        origin: &str,
        format: BlockTraceFormat,
        source: Source,
        scan: Scan,
        options: &BlockTraceOptions,
    ) -> Result<Self, BlockTraceError> {
        let takes_all = format.names_files() && options.disk.is_none();
        let disk_number = if takes_all {
            None
        } else {
            let chosen = choose_disk(&scan.disks, options.disk.as_deref());
            Some(chosen.map_err(|message| BlockTraceError::for_whole_trace(origin, message))?)
        };
        let trace = Self {
            origin: origin.to_owned(),
            format,
            disk: disk_number.map(|number| scan.disks[number].name.clone()),
            is_busiest_of_several: disk_number.is_some()
                && options.disk.is_none()
                && scan.disks.len() > 1,
            totals: disk_number.map_or(scan.all, |number| scan.by_disk[number]),
            disks: scan.disks,
            from: options.from,
            is_dependent: options.is_dependent,
            unended_line: scan.unended_line,
            source,
            disk_number,
        };
        trace.check_window_and_ends()?;
        Ok(trace)
    }

    fn check_window_and_ends(&self) -> Result<(), BlockTraceError> {
        let lasts = self.totals.duration;
        if self.from > lasts {
            let message = format!(
                "there is no request from {} s on: the last one comes after {:.6} s",
                self.from.as_secs_f64(),
                lasts.as_secs_f64()
            );
            return Err(BlockTraceError::for_whole_trace(&self.origin, message));
        }
        let has_some = self.format.has_ends()
            && self.totals.without_end < self.totals.requests() - self.totals.flushes;
        if self.is_dependent && !has_some {
            let message = "the trace does not say when requests ended, so that nothing is known to depend on them; leave out \
                 --dependent";
            return Err(BlockTraceError::for_whole_trace(&self.origin, message));
        }
        Ok(())
    }

    /// Time from the begin of the window to the last request.
    pub fn duration(&self) -> Nanoseconds {
        Nanoseconds(self.totals.duration.0 - self.from.0)
    }

    /// Reads the requests from the begin of the window on.
    ///
    /// # Errors
    /// The trace cannot be opened again. The iterator gives an error if the trace has changed for the worse.
    pub fn requests(&self) -> Result<BlockTraceRequests, BlockTraceError> {
        let from = self.totals.first_time() + self.from.0;
        let stream = match &self.source {
            Source::File(path) => {
                let file = open_file(path, &self.origin)?;
                let reader = BufReader::with_capacity(READ_BYTES, file);
                RequestStream::File(Box::new(self.order_requests(reader)))
            }
            Source::Text(text) => {
                RequestStream::Text(Box::new(self.order_requests(Cursor::new(Arc::clone(text)))))
            }
            Source::Recording(recording) => RequestStream::Recorded(recording.read_requests()?),
        };
        Ok(BlockTraceRequests::new(stream, &self.origin, from))
    }

    fn order_requests<R: BufRead>(&self, reader: R) -> OrderedRequests<R> {
        let parsed = ParsedRequests::new(reader, self.format, self.is_dependent);
        OrderedRequests::new(parsed, self.disk_number)
    }

    /// The file of the trace; `None` for a trace in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Text(_) | Source::Recording(_) => None,
        }
    }

    /// What a reader of results should know of the trace.
    pub fn notes(&self) -> Vec<TraceNote> {
        let mut notes = Vec::new();
        if let (true, Some(disk)) = (self.is_busiest_of_several, &self.disk) {
            notes.push(TraceNote::for_whole_trace(format!(
                "{} disks, and {disk} has the most requests: {} of {}; another is taken with --disk",
                self.disks.len(),
                self.totals.requests(),
                self.disks.iter().map(|disk| disk.requests).sum::<u64>()
            )));
        }
        if self.format == BlockTraceFormat::BlkparseQueue {
            let sentence = "no dispatched requests (D), so that the queued ones (Q) count";
            notes.push(TraceNote::for_whole_trace(sentence.to_owned()));
        }
        if self.is_dependent && self.totals.without_end > 0 {
            notes.push(TraceNote::for_whole_trace(format!(
                "{} of {} requests have no recorded end: no other request waits for them",
                self.totals.without_end,
                self.totals.requests()
            )));
        }
        if self.totals.longest_gap > LONGEST_LIKELY_GAP {
            let [before, behind] = self.totals.lines_at_gap;
            notes.push(TraceNote {
                line: behind,
                sentence: format!(
                    "{:.1} days without a request lie behind line {before}: a time in the trace may be damaged; what is behind the \
                     gap is taken with --from",
                    self.totals.longest_gap.as_secs_f64() / SECONDS_OF_DAY as f64
                ),
            });
        }
        if let Some(line) = self.unended_line {
            notes.push(TraceNote {
                line,
                sentence: "the last line has no end: the trace may be cut off".to_owned(),
            });
        }
        notes
    }
}

/// A remark on a trace for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceNote {
    /// Line that the remark is about, counted from 1; 1 for the whole trace.
    pub line: u64,
    /// The remark in words.
    pub sentence: String,
}

impl TraceNote {
    fn for_whole_trace(sentence: String) -> Self {
        Self { line: 1, sentence }
    }
}

/// The format of a trace that begins with `begin`; `None` if the file is no trace.
fn require_readable_format(
    begin: &[u8],
    origin: &str,
) -> Result<Option<BlockTraceFormat>, BlockTraceError> {
    match tell_file_kind(begin) {
        FileKind::Trace(format) => Ok(Some(format)),
        FileKind::Unreadable(hint) => Err(BlockTraceError::for_whole_trace(origin, hint)),
        FileKind::Other => Ok(None),
    }
}
