//! Formats, told apart by a trace's first lines.

use serde::Serialize;

use super::blkparse::{BlkparseParser, RequestAction, begins_with_device, looks_like_own_format};
use super::fio_log::{FioLogParser, FioLogVersion};
use super::line::TraceLine;
use super::msr;
use super::record_file::{RecordMark, SWAPPED, find_record_mark};

/// Bytes at a trace's begin that tell the format.
pub(super) const BEGIN_BYTES: u64 = 1 << 20;

/// Block trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum BlockTraceFormat {
    /// Text from `blkparse` with requests dispatched to the drive.
    Blkparse,
    /// Text from `blkparse` without dispatched requests; queued requests count.
    BlkparseQueue,
    /// Binary files from `blktrace` with requests dispatched to the drive.
    Blktrace,
    /// Binary files from `blktrace` without dispatched requests; queued requests count.
    BlktraceQueue,
    /// fio's I/O log, version 2, with waits.
    FioLog2,
    /// fio's I/O log, version 3, with times.
    FioLog3,
    /// Comma-separated trace from Microsoft Research Cambridge.
    MsrCambridge,
    /// Recorded requests, read by the caller.
    Recording,
}

impl BlockTraceFormat {
    /// The format's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blkparse => "blkparse",
            Self::BlkparseQueue => "blkparse (queued requests)",
            Self::Blktrace => "blktrace",
            Self::BlktraceQueue => "blktrace (queued requests)",
            Self::FioLog2 => "fio iolog version 2",
            Self::FioLog3 => "fio iolog version 3",
            Self::MsrCambridge => "MSR Cambridge",
            Self::Recording => "recording",
        }
    }

    /// Whether the trace says when requests ended.
    pub(super) fn has_ends(self) -> bool {
        !matches!(self, Self::FioLog2 | Self::FioLog3)
    }

    /// Whether files rather than disks are named: all files are parts of a drive.
    pub(super) fn names_files(self) -> bool {
        matches!(self, Self::FioLog2 | Self::FioLog3)
    }

    /// Whether separate lines or records say when requests end.
    pub(super) fn has_ends_in_own_lines(self) -> bool {
        matches!(self, Self::Blkparse | Self::BlkparseQueue) || self.is_binary()
    }

    /// Whether the trace has records rather than lines.
    pub(super) fn is_binary(self) -> bool {
        matches!(self, Self::Blktrace | Self::BlktraceQueue)
    }

    /// Whether requests count as they were queued, for want of dispatched ones.
    pub(super) fn counts_queued_requests(self) -> bool {
        matches!(self, Self::BlkparseQueue | Self::BlktraceQueue)
    }

    /// The binary format with requests by an action.
    pub(super) fn for_records(action: RequestAction) -> Self {
        match action {
            RequestAction::Dispatch => Self::Blktrace,
            RequestAction::Queue => Self::BlktraceQueue,
        }
    }

    /// The action for requests among blktrace events.
    pub(super) fn request_action(self) -> RequestAction {
        if self.counts_queued_requests() {
            RequestAction::Queue
        } else {
            RequestAction::Dispatch
        }
    }
}

/// A file's kind, by the first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A readable trace, as text.
    Trace(BlockTraceFormat),
    /// blktrace's binary records.
    Records,
    /// A trace to be converted first; the text says how.
    Unreadable(&'static str),
    /// No block trace.
    Other,
}

/// First bytes of files to be converted first.
const UNREADABLE: [(&[u8], &str); 4] = [
    (
        b"\x1f\x8b",
        "is compressed; unpack it first: gunzip -c FILE >trace.txt",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "is compressed; unpack it first: zstd -dc FILE >trace.txt",
    ),
    (
        b"\xfd7zXZ\0",
        "is compressed; unpack it first: xz -dc FILE >trace.txt",
    ),
    (
        b"BZh",
        "is compressed; unpack it first: bzip2 -dc FILE >trace.txt",
    ),
];

/// The hint for blktrace events without any request.
pub(super) const WITHOUT_REQUESTS: &str = "has neither dispatched (D) nor queued (Q) requests in its first MiB; trace with \
                                           blktrace -a issue -a complete";

/// The hint for text of `blkparse` in another format than its own.
const OWN_FORMAT: &str = "looks like text of blkparse in a format of its own (-f), whose numbers cannot be told apart: make \
                          text in the default format: blkparse -i NAME >trace.txt";

/// Tells the kind of a file that begins with `begin`.
pub(super) fn tell_file_kind(begin: &[u8]) -> FileKind {
    if let Some((_, hint)) = UNREADABLE.iter().find(|(mark, _)| begin.starts_with(mark)) {
        return FileKind::Unreadable(hint);
    }
    match find_record_mark(begin) {
        Some(RecordMark::Native) => return FileKind::Records,
        Some(RecordMark::Swapped) => return FileKind::Unreadable(SWAPPED),
        None => {}
    }
    let text = String::from_utf8_lossy(begin);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = lines.next() else {
        return FileKind::Other;
    };
    if let Some(rest) = first.strip_prefix("fio version ") {
        return match rest.split_ascii_whitespace().next() {
            Some("2") => FileKind::Trace(BlockTraceFormat::FioLog2),
            Some("3") => FileKind::Trace(BlockTraceFormat::FioLog3),
            _ => FileKind::Unreadable(
                "begins with a version of fio's log that is not read: expected `fio version 2 iolog` or `fio version 3 iolog`",
            ),
        };
    }
    if msr::looks_like_line(first) {
        return FileKind::Trace(BlockTraceFormat::MsrCambridge);
    }
    if looks_like_own_format(&text) {
        return FileKind::Unreadable(OWN_FORMAT);
    }
    if !begins_with_device(first) {
        return FileKind::Other;
    }
    match RequestAction::choose_by_lines(text.lines()) {
        Some(RequestAction::Dispatch) => FileKind::Trace(BlockTraceFormat::Blkparse),
        Some(RequestAction::Queue) => FileKind::Trace(BlockTraceFormat::BlkparseQueue),
        None => FileKind::Unreadable(WITHOUT_REQUESTS),
    }
}

/// Line parser for any format.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineParser {
    Blkparse(BlkparseParser),
    FioLog(FioLogParser),
    MsrCambridge,
}

impl LineParser {
    pub(super) fn new(format: BlockTraceFormat) -> Self {
        match format {
            // Records and recordings have no lines.
            BlockTraceFormat::Blkparse
            | BlockTraceFormat::BlkparseQueue
            | BlockTraceFormat::Blktrace
            | BlockTraceFormat::BlktraceQueue
            | BlockTraceFormat::Recording => {
                Self::Blkparse(BlkparseParser::new(format.request_action()))
            }
            BlockTraceFormat::FioLog2 => Self::FioLog(FioLogParser::new(FioLogVersion::Two)),
            BlockTraceFormat::FioLog3 => Self::FioLog(FioLogParser::new(FioLogVersion::Three)),
            BlockTraceFormat::MsrCambridge => Self::MsrCambridge,
        }
    }

    /// Parses a line, and checks the request's size.
    ///
    /// # Errors
    /// Says what is wrong with the line.
    pub(super) fn parse_line<'a>(&mut self, line: &'a str) -> Result<TraceLine<'a>, String> {
        let parsed = match self {
            Self::Blkparse(parser) => parser.parse_line(line)?,
            Self::FioLog(parser) => parser.parse_line(line)?,
            Self::MsrCambridge => msr::parse_line(line)?,
        };
        if let TraceLine::Request(request) = &parsed {
            request.check_size_and_end()?;
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_first_lines() {
        let event = "8,0 0 1 0.0 5 Q R 8 + 8 [x]\n";
        let dispatch = event.replace('Q', "D");
        for (text, wanted) in [
            ("fio version 2 iolog\n", BlockTraceFormat::FioLog2),
            ("fio version 3 iolog\n", BlockTraceFormat::FioLog3),
            ("1,usr,0,Read,0,512,1\n", BlockTraceFormat::MsrCambridge),
            (event, BlockTraceFormat::BlkparseQueue),
            (&format!("\n{event}{dispatch}"), BlockTraceFormat::Blkparse),
        ] {
            let kind = tell_file_kind(text.as_bytes());
            assert_eq!(kind, FileKind::Trace(wanted), "{text}");
        }
    }

    #[test]
    fn binary_records_are_told_by_their_mark() {
        let mark = 0x6561_7407_u32;
        assert_eq!(tell_file_kind(&mark.to_ne_bytes()), FileKind::Records);
        let swapped = mark.swap_bytes().to_ne_bytes();
        assert_eq!(tell_file_kind(&swapped), FileKind::Unreadable(SWAPPED));
        assert_eq!(tell_file_kind(b"eat\nmore"), FileKind::Other);
    }

    #[test]
    fn other_workloads_are_no_traces() {
        for text in [
            "",
            "\n\n",
            "[a]\nrw=read\n",
            "; comment, with, commas, and, more, of, them\n[a]\n",
            "{ \"tasks\": {} }",
            "PAR1",
        ] {
            assert_eq!(tell_file_kind(text.as_bytes()), FileKind::Other, "{text}");
        }
    }

    #[test]
    fn text_in_another_format_of_blkparse_is_told() {
        for (text, wanted) in [
            // -f "%T.%9t %a %d %S %n\n"
            ("0.000001234 Q R 2048 8\n0.000005678 D R 2048 8\n", true),
            // -f "%5T.%9t, %p, %C, %a\n", the example of the manual, and with letters and a sector.
            (
                "    0.000001234, 697, fio, Q\n    0.000005678, 697, fio, D\n",
                true,
            ),
            ("0.1,697,fio,D,WS,2048\n", true),
            ("0.1 D W 8 8\nCPU0 (trace):\n Reads Queued: 1, 4KiB\n", true),
            // -f "%D %T.%t %a %d %S %N\n"
            (
                "259,0 0.1234 D RA 2048 4096\n259,0 0.1240 C RA 2048 4096\n",
                true,
            ),
            // Nanoseconds alone.
            ("259,0 3 D W 2048 + 8 123456789\n", true),
            ("8,0 0 1 0.0 5 Q R 8 + 8 [x]\n", false),
            (
                "8,0 0 1 0.0 5 C R 8 + 8 [0]\n8,0 0 2 0.1 5 m N cfq5 slice\n",
                false,
            ),
            ("; 0.5 Q R\n[a]\nrw=read\n", false),
            ("[a]\nrw=read\nsize=1m\n", false),
            ("name = 0.5\nQ = 5\n", false),
        ] {
            let is_told = tell_file_kind(text.as_bytes()) == FileKind::Unreadable(OWN_FORMAT);
            assert_eq!(is_told, wanted, "{text}");
        }
    }

    #[test]
    fn what_has_to_be_converted_says_how() {
        for (begin, wanted) in [
            (&b"\x1f\x8b\x08"[..], "gunzip"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"fio version 1 iolog\n", "expected `fio version 2 iolog`"),
            (b"8,0 0 1 0.0 5 C R 8 + 8 [0]\n", "neither dispatched"),
        ] {
            let FileKind::Unreadable(hint) = tell_file_kind(begin) else {
                panic!("{wanted}");
            };
            assert!(hint.contains(wanted), "{hint}");
        }
    }
}
