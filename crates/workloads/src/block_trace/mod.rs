//! Block traces as workloads: requests that a drive got elsewhere, at the times when they came.
//!
//! [`BlockTrace::load`] tells the format by the first lines, and reads a trace once from end to end: every line is checked
//! before anything is simulated. blktrace's binary files are read likewise, a record for a line. [`BlockTrace::requests`] reads the trace again, request by request. Neither holds more
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
mod log_writing;
mod merged_records;
mod msr;
mod ordered;
mod parsed;
mod record_file;
mod record_folder;
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
pub use log_writing::{FILE_IN_LOG, WrittenLog, write_fio_log};
pub use recorded::{RecordedRequests, RequestRecording};
pub use request::{BlockTraceRequest, TraceIo};
pub use requests::BlockTraceRequests;
pub use totals::{BlockTraceTotals, TracedDisk};

use format::{BEGIN_BYTES, FileKind, tell_file_kind};
use merged_records::{MergedRecords, choose_action_by_records};
use ordered::OrderedRequests;
use parsed::ParsedRequests;
use record_file::RecordFile;
use record_folder::{RecordFolder, has_record_file_name};
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
    Records(RecordFolder),
    Text(Arc<[u8]>),
    Recording(Arc<dyn RequestRecording>),
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(path), Self::File(other)) => path == other,
            (Self::Records(folder), Self::Records(other)) => folder == other,
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
    /// Requests behind later ones; all are read in time order.
    pub misplaced: u64,
    #[serde(skip)]
    source: Source,
    #[serde(skip)]
    disk_number: Option<usize>,
}

impl BlockTrace {
    /// Reads the trace at `path`; `None` if the file is no block trace. For blktrace, `path` is a folder, or a device's file: the
    /// device's files from other CPUs are read, too.
    ///
    /// # Errors
    /// The file cannot be read or has to be converted first; a line or record is damaged, has a size that no drive takes, or stands
    /// too far from its place in time; the trace has no request, or not what `options` ask for.
    pub fn load(path: &Path, options: &BlockTraceOptions) -> Result<Option<Self>, BlockTraceError> {
        let origin = path.display().to_string();
        if path.is_dir() {
            let folder = RecordFolder::in_folder(path)?;
            return (folder.map(|found| Self::load_records(&origin, found, options))).transpose();
        }
        let mut begin = Vec::new();
        (open_file(path, &origin)?.take(BEGIN_BYTES))
            .read_to_end(&mut begin)
            .map_err(|e| BlockTraceError::for_whole_trace(&origin, format!("cannot read: {e}")))?;
        // A CPU that traced nothing leaves an empty file.
        let is_idle_cpu = begin.is_empty() && has_record_file_name(path);
        let format = match tell_file_kind(&begin) {
            FileKind::Records => None,
            FileKind::Other if is_idle_cpu => None,
            FileKind::Other => return Ok(None),
            FileKind::Trace(format) => Some(format),
            FileKind::Unreadable(hint) => {
                return Err(BlockTraceError::for_whole_trace(&origin, hint));
            }
        };
        let Some(format) = format else {
            let files = RecordFolder::beside_file(path)?;
            return Self::load_records(&origin, files, options).map(Some);
        };
        let reader = BufReader::with_capacity(READ_BYTES, open_file(path, &origin)?);
        let scan = scan_trace(
            ParsedRequests::new(reader, format, options.is_dependent),
            &origin,
        )?;
        let source = Source::File(path.to_owned());
        Self::new(&origin, format, source, scan, options).map(Some)
    }

    fn load_records(
        origin: &str,
        folder: RecordFolder,
        options: &BlockTraceOptions,
    ) -> Result<Self, BlockTraceError> {
        let format = folder.choose_format(origin)?;
        let records = folder.open(format)?;
        let scan = scan_trace(
            ParsedRequests::from_records(records, options.is_dependent),
            origin,
        )?;
        Self::new(origin, format, Source::Records(folder), scan, options)
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
        let format = match tell_file_kind(begin) {
            FileKind::Trace(format) => format,
            FileKind::Records => {
                let file = RecordFile::new(origin.to_owned(), text);
                let files = std::iter::once(Ok(file));
                let action = choose_action_by_records(files, BEGIN_BYTES, origin)?;
                BlockTraceFormat::for_records(action)
            }
            FileKind::Unreadable(hint) => {
                return Err(BlockTraceError::for_whole_trace(origin, hint));
            }
            FileKind::Other => {
                let message = "is no block trace: expected text of blkparse, blktrace's binary, fio's iolog or an MSR Cambridge trace";
                return Err(BlockTraceError::for_whole_trace(origin, message));
            }
        };
        let requests = parse_memory(text, format, options.is_dependent, origin);
        let scan = scan_trace(requests, origin)?;
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
            misplaced: 0,
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
            misplaced: disk_number.map_or(scan.misplaced, |number| scan.misplaced_by_disk[number]),
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
                let requests = ParsedRequests::new(reader, self.format, self.is_dependent);
                RequestStream::File(Box::new(self.order_requests(requests)))
            }
            Source::Records(folder) => {
                let records = folder.open(self.format)?;
                let requests = ParsedRequests::from_records(records, self.is_dependent);
                RequestStream::File(Box::new(self.order_requests(requests)))
            }
            Source::Text(text) => {
                let reader = Cursor::new(Arc::clone(text));
                let requests = parse_memory(reader, self.format, self.is_dependent, &self.origin);
                RequestStream::Text(Box::new(self.order_requests(requests)))
            }
            Source::Recording(recording) => RequestStream::Recorded(recording.read_requests()?),
        };
        Ok(BlockTraceRequests::new(stream, &self.origin, from))
    }

    fn order_requests<R: BufRead>(&self, requests: ParsedRequests<R>) -> OrderedRequests<R> {
        OrderedRequests::new(requests, self.disk_number)
    }

    /// The file of the trace, or the folder of its files; `None` for a trace in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Records(folder) => Some(&folder.path),
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
        if self.format.counts_queued_requests() {
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
        if self.misplaced > 0 {
            let (stand, are) = if self.misplaced == 1 {
                ("request stands", "it is")
            } else {
                ("requests stand", "they are")
            };
            notes.push(TraceNote::for_whole_trace(format!(
                "{} {stand} behind a later one in the trace: {are} read in the order of time",
                self.misplaced
            )));
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

/// The requests of a trace in memory.
fn parse_memory<R: BufRead>(
    reader: R,
    format: BlockTraceFormat,
    wants_ends: bool,
    origin: &str,
) -> ParsedRequests<R> {
    if format.is_binary() {
        let file = RecordFile::new(origin.to_owned(), reader);
        let records = MergedRecords::new(vec![file], format.request_action());
        return ParsedRequests::from_records(records, wants_ends);
    }
    ParsedRequests::new(reader, format, wants_ends)
}
