//! A log that a fio job replays (`read_iolog`): line by line, each request some time after the last.
//!
//! Rules as in fio 3.33 (`read_iolog()`, `delay_since_ttime()` and `read_iolog_get()` in `iolog.c`); a block trace has others.
//! Version 3: the time between two lines counts from when the last request was issued. Version 2: a wait is a time in ms after
//! fio's start. Trims are left out, together with their time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use wakepath_units::Nanoseconds;
use wakepath_units::printable::escape_for_one_line;

use super::error::{BlockTraceError, LineProblem};
use super::fio_log::{FioLogAction, FioLogLine, FioLogVersion, parse_log_line};
use super::format::{BEGIN_BYTES, BlockTraceFormat, FileKind, tell_file_kind};
use super::line::{LineRequest, multiply};
use super::lines::Lines;
use super::parsed::{DiskNumbers, PlacedRequest};
use super::request::TraceIo;
use super::totals::BlockTraceTotals;
use super::trace_file::{READ_BYTES, open_file};

/// Nanoseconds of a millisecond, the unit of waits.
const MILLISECOND: u64 = 1_000_000;

/// How a job replays its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JobLogOptions {
    /// Whether times and waits of the log count; otherwise requests follow each other at once (fio's `replay_no_stall`).
    pub keeps_times: bool,
    /// Speed of the replay in percent, at least 1: 200 halves the times of version 3 (fio's `replay_time_scale`). Default 100.
    pub time_scale: u32,
    /// Divisor for offsets; 0 counts as 1 (fio's `replay_scale`). Default 1.
    pub offset_divisor: u32,
    /// Power of 2 in bytes of which offsets are rounded down to a multiple; 0: not at all (fio's `replay_align`). Default 0.
    pub align: u32,
}

impl Default for JobLogOptions {
    fn default() -> Self {
        Self {
            keeps_times: true,
            time_scale: 100,
            offset_divisor: 1,
            align: 0,
        }
    }
}

impl JobLogOptions {
    fn place(self, offset: u64) -> u64 {
        let scaled = offset / u64::from(self.offset_divisor.max(1));
        match self.align {
            0 => scaled,
            align => scaled & !(u64::from(align) - 1),
        }
    }

    /// A time between two lines in ns, as replayed: whole microseconds.
    fn scale_time(self, time: u64) -> u64 {
        if !self.keeps_times {
            return 0;
        }
        let scaled = (time / 1000).saturating_mul(100) / u64::from(self.time_scale.max(1));
        scaled.saturating_mul(1000)
    }
}

/// When a request of a job's log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobLogStart {
    /// This time after the last request was issued, or at once if more time has passed.
    AfterLastIssue(Nanoseconds),
    /// Not before this time after fio's start.
    NotBefore(Nanoseconds),
}

/// A request of a job's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLogRequest {
    /// When the request begins.
    pub start: JobLogStart,
    /// What the request does; never a trim.
    pub io: TraceIo,
    /// First byte in the file; 0 for flushes.
    pub offset: u64,
    /// Bytes, at least 1; 0 for flushes.
    pub bytes: u64,
}

/// A checked log for a job to replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobLog {
    /// Name of the log for messages.
    pub origin: String,
    /// Version of the log.
    pub version: FioLogVersion,
    /// How the job replays the log.
    pub options: JobLogOptions,
    /// Totals of all requests, as if no request took time.
    pub totals: BlockTraceTotals,
    /// Names of files in the order of the log.
    pub files: Vec<String>,
    /// Number of lines without effect in fio: trims, and flushes of a range.
    pub left_out: u64,
    /// The last line, if it has no end and the log may be cut off.
    pub unended_line: Option<u64>,
    #[serde(skip)]
    path: PathBuf,
}

impl JobLog {
    /// Reads the log at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is no log of fio, has a damaged line or a size that no drive takes, or neither reads nor writes.
    pub fn load(path: &Path, options: JobLogOptions) -> Result<Self, BlockTraceError> {
        let origin = escape_for_one_line(&path.display().to_string()).into_owned();
        let version = version_of_log(path, &origin)?;
        let mut reader = JobLogReader::open(path, &origin, version, options)?;
        let mut totals = BlockTraceTotals::default();
        while let Some(placed) = (reader.next_request()).map_err(|e| e.in_trace(&origin))? {
            totals.add(&placed.request);
        }
        let lines = reader.lines.last_line_number();
        if totals.reads + totals.writes == 0 {
            let message = format!("no read or write in {lines} line(s)");
            return Err(BlockTraceError::for_whole_trace(&origin, message));
        }
        Ok(Self {
            version,
            options,
            totals,
            files: reader.files.names().to_vec(),
            left_out: reader.left_out,
            unended_line: (!reader.lines.is_last_line_ended()).then_some(lines),
            path: path.to_owned(),
            origin,
        })
    }

    /// Reads the requests one by one.
    ///
    /// # Errors
    /// The log cannot be opened again. The iterator gives an error if the log was damaged since.
    pub fn requests(&self) -> Result<JobLogRequests, BlockTraceError> {
        let reader = JobLogReader::open(&self.path, &self.origin, self.version, self.options)?;
        Ok(JobLogRequests {
            reader: Box::new(reader),
            origin: self.origin.clone(),
            is_over: false,
        })
    }

    /// Time from the first request to the last, as if no request took time.
    pub fn duration(&self) -> Nanoseconds {
        self.totals.duration
    }

    /// Notes for users: ends of sentences that begin with the option's name.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.left_out > 0 {
            notes.push(format!(
                "leaves out {} trims or range flushes, as fio 3.33 does",
                self.left_out
            ));
        }
        if let Some(line) = self.unended_line {
            notes.push(format!(
                "reads a log whose last line, {line}, has no end: it may be cut off"
            ));
        }
        notes
    }
}

/// The version of the log at `path`.
fn version_of_log(path: &Path, origin: &str) -> Result<FioLogVersion, BlockTraceError> {
    let mut begin = Vec::new();
    (open_file(path, origin)?.take(BEGIN_BYTES))
        .read_to_end(&mut begin)
        .map_err(|e| BlockTraceError::for_whole_trace(origin, format!("cannot read: {e}")))?;
    let message = match tell_file_kind(&begin) {
        _ if begin.is_empty() => {
            "is empty: expected a log of fio, which begins with `fio version 3 iolog`"
        }
        FileKind::Trace(BlockTraceFormat::FioLog2) => return Ok(FioLogVersion::Two),
        FileKind::Trace(BlockTraceFormat::FioLog3) => return Ok(FioLogVersion::Three),
        FileKind::Trace(_) => {
            "is a block trace, and no log of fio: give it to `wakepath sim` instead of a job file"
        }
        FileKind::Records => {
            "is blktrace's binary; make a log of it: wakepath workload extract NAME -o trace.log"
        }
        FileKind::Unreadable(hint) => hint,
        FileKind::Other => {
            "is no log of fio: expected `fio version 2 iolog` or `fio version 3 iolog` in its first line"
        }
    };
    Err(BlockTraceError::for_whole_trace(origin, message))
}

/// Requests of a job's log, read singly.
#[derive(Debug)]
pub struct JobLogRequests {
    reader: Box<JobLogReader<BufReader<File>>>,
    origin: String,
    is_over: bool,
}

impl Iterator for JobLogRequests {
    type Item = Result<JobLogRequest, BlockTraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        match self.reader.next_request() {
            Ok(Some(placed)) => Some(Ok(placed.as_replayed())),
            Ok(None) => {
                self.is_over = true;
                None
            }
            Err(problem) => {
                self.is_over = true;
                Some(Err(problem.in_trace(&self.origin)))
            }
        }
    }
}

/// A request with its start and its place in the log.
struct StartedRequest {
    start: JobLogStart,
    request: PlacedRequest,
}

impl StartedRequest {
    fn as_replayed(&self) -> JobLogRequest {
        JobLogRequest {
            start: self.start,
            io: self.request.io,
            offset: self.request.offset,
            bytes: self.request.bytes,
        }
    }
}

/// Reads a log line by line.
#[derive(Debug)]
struct JobLogReader<R> {
    lines: Lines<R>,
    clock: JobLogClock,
    files: DiskNumbers,
    left_out: u64,
}

impl JobLogReader<BufReader<File>> {
    fn open(
        path: &Path,
        origin: &str,
        version: FioLogVersion,
        options: JobLogOptions,
    ) -> Result<Self, BlockTraceError> {
        let reader = BufReader::with_capacity(READ_BYTES, open_file(path, origin)?);
        Ok(Self::new(reader, version, options))
    }
}

impl<R: BufRead> JobLogReader<R> {
    fn new(reader: R, version: FioLogVersion, options: JobLogOptions) -> Self {
        Self {
            lines: Lines::new(reader),
            clock: JobLogClock::new(version, options),
            files: DiskNumbers::default(),
            left_out: 0,
        }
    }

    /// The next request; `None` after the last.
    fn next_request(&mut self) -> Result<Option<StartedRequest>, LineProblem> {
        let read = self.read_request();
        read.map_err(|problem| self.lines.explain_problem_in_cut_line(problem))
    }

    fn read_request(&mut self) -> Result<Option<StartedRequest>, LineProblem> {
        loop {
            let line = self.lines.last_line_number() + 1;
            let Some(text) = self.lines.next_line()? else {
                return Ok(None);
            };
            let read = parse_log_line(self.clock.version, &text)
                .map_err(|message| LineProblem { line, message })?;
            let passed = self.clock.advance(read);
            match read.action {
                FioLogAction::Nothing => {}
                FioLogAction::FileChange { file } => {
                    self.files.find_or_add_in_line(file, line)?;
                    self.clock.add_delay(passed);
                }
                FioLogAction::Wait { number, has_length } => {
                    (self.clock.wait(number, has_length))
                        .map_err(|message| LineProblem { line, message })?;
                }
                FioLogAction::Request {
                    word: "trim" | "sync_file_range",
                    ..
                } => self.left_out += 1,
                FioLogAction::Request {
                    file,
                    io,
                    offset,
                    bytes,
                    ..
                } => {
                    let checked = LineRequest {
                        disk: file,
                        time: 0,
                        io,
                        offset,
                        bytes,
                        ended: None,
                    };
                    (checked.check_size_and_end())
                        .map_err(|message| LineProblem { line, message })?;
                    if io == TraceIo::Flush && bytes > 0 {
                        let message = format!(
                            "a flush of {bytes} bytes, at which fio's engines fail: its own logs have 0"
                        );
                        return Err(LineProblem { line, message });
                    }
                    self.clock.add_delay(passed);
                    let disk = self.files.find_or_add_in_line(file, line)?;
                    let start = self.clock.start_request();
                    return Ok(Some(StartedRequest {
                        start,
                        request: PlacedRequest {
                            time: self.clock.now,
                            line,
                            disk,
                            io,
                            offset: self.clock.options.place(offset),
                            bytes,
                            ended: None,
                        },
                    }));
                }
            }
        }
    }
}

/// When requests begin, by the times or waits of the lines so far.
#[derive(Debug)]
struct JobLogClock {
    version: FioLogVersion,
    options: JobLogOptions,
    /// Time in ns of the last line in version 3; 0 until a line has a time.
    last_line: u64,
    /// Time in ns since the last request.
    delay: u64,
    /// Time in ns of the last request, as if no request took time, or the latest end of a wait.
    now: u64,
}

impl JobLogClock {
    fn new(version: FioLogVersion, options: JobLogOptions) -> Self {
        Self {
            version,
            options,
            last_line: 0,
            delay: 0,
            now: 0,
        }
    }

    /// Goes on to a line of version 3. Returns the time in ns since the line before, as replayed: fio lets none pass before the
    /// first line with a time above 0, and where times go back.
    fn advance(&mut self, line: FioLogLine<'_>) -> u64 {
        if self.version == FioLogVersion::Two || line.action == FioLogAction::Nothing {
            return 0;
        }
        let passed = match self.last_line {
            0 => 0,
            last => line.time.saturating_sub(last),
        };
        self.last_line = line.time;
        self.options.scale_time(passed)
    }

    fn add_delay(&mut self, time: u64) {
        self.delay = self.delay.saturating_add(time);
    }

    /// Waits as a line asks. fio passes over waits in version 3.
    ///
    /// # Errors
    /// The wait is too long, or fio would not understand the line.
    fn wait(&mut self, number: u64, has_length: bool) -> Result<(), String> {
        if !has_length {
            return Err(
                "fio 3.33 passes over a wait without a length; write `FILE wait MILLISECONDS 0`"
                    .to_owned(),
            );
        }
        let end = multiply(number, MILLISECOND, "wait")?;
        if self.version == FioLogVersion::Two && self.options.keeps_times {
            self.now = self.now.max(end);
        }
        Ok(())
    }

    /// Begins a request.
    fn start_request(&mut self) -> JobLogStart {
        let delay = std::mem::take(&mut self.delay);
        match self.version {
            FioLogVersion::Two => JobLogStart::NotBefore(Nanoseconds(self.now)),
            FioLogVersion::Three => {
                self.now = self.now.saturating_add(delay);
                JobLogStart::AfterLastIssue(Nanoseconds(delay))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Start in us, word, offset and bytes of each request.
    type Replayed = Vec<(u64, TraceIo, u64, u64)>;

    fn load(text: &str, options: JobLogOptions) -> Result<JobLog, BlockTraceError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, text).unwrap();
        let read = JobLog::load(&path, options);
        if let Ok(log) = &read {
            // What a run reads is what was checked.
            let requests: Vec<_> = log.requests().unwrap().map(Result::unwrap).collect();
            assert_eq!(requests.len() as u64, log.totals.requests());
        }
        read
    }

    fn replayed(text: &str, options: JobLogOptions) -> Replayed {
        let version = if text.contains("version 2") {
            FioLogVersion::Two
        } else {
            FioLogVersion::Three
        };
        let mut reader = JobLogReader::new(text.as_bytes(), version, options);
        let mut all = Vec::new();
        while let Some(placed) = reader.next_request().unwrap() {
            let request = placed.as_replayed();
            let (JobLogStart::AfterLastIssue(start) | JobLogStart::NotBefore(start)) =
                request.start;
            all.push((start.0 / 1000, request.io, request.offset, request.bytes));
        }
        all
    }

    const THREE: &str = "fio version 3 iolog\n0 f add\n0 f open\n1000 f read 0 4096\n101000 f write 4096 8192\n\
                         151000 f trim 8192 4096\n201000 f sync 0 0\n261000 f close\n261000 f open\n301000 f read 65536 512\n";

    #[test]
    fn times_of_version_3_count_from_the_request_before() {
        let plain = JobLogOptions::default();
        // The time before the trim goes with it, and that before other lines stays.
        let wanted = [
            (0, TraceIo::Read, 0, 4096),
            (100_000, TraceIo::Write, 4096, 8192),
            (50_000, TraceIo::Flush, 0, 0),
            (100_000, TraceIo::Read, 65_536, 512),
        ];
        assert_eq!(replayed(THREE, plain), wanted);
        let starts =
            |options| -> Vec<u64> { replayed(THREE, options).iter().map(|one| one.0).collect() };
        let fast = JobLogOptions {
            time_scale: 300,
            ..plain
        };
        assert_eq!(starts(fast), [0, 33_333, 16_666, 33_333]);
        let at_once = JobLogOptions {
            keeps_times: false,
            ..plain
        };
        assert_eq!(starts(at_once), [0; 4]);
    }

    #[test]
    fn times_that_go_back_and_waits_of_version_3_let_no_time_pass() {
        let text = "fio version 3 iolog\n10 f read 0 1\n20 f wait 9 0\n100030 f read 0 1\n50000 f read 0 1\n60000 f read 0 1\n";
        let replay = replayed(text, JobLogOptions::default());
        let starts: Vec<u64> = replay.iter().map(|one| one.0).collect();
        // As long as fio 3.33 took for this log: 110 ms.
        assert_eq!(starts, [0, 100_010, 0, 10_000]);
    }

    #[test]
    fn waits_of_version_2_are_milliseconds_from_the_start() {
        let text = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 300 0\nf read 4096 4096\nf wait 100 0\n\
                    f write 8192 4096\nf wait 600 0\nf datasync 0 0\n";
        let starts = |keeps_times| -> Vec<u64> {
            let options = JobLogOptions {
                keeps_times,
                ..JobLogOptions::default()
            };
            replayed(text, options).iter().map(|one| one.0).collect()
        };
        assert_eq!(starts(true), [0, 300_000, 300_000, 600_000]);
        assert_eq!(starts(false), [0; 4]);
    }

    #[test]
    fn offsets_are_divided_and_aligned() {
        let text = "fio version 3 iolog\n0 f read 24575 4096\n0 f read 4095 4096\n";
        let options = JobLogOptions {
            offset_divisor: 2,
            align: 4096,
            ..JobLogOptions::default()
        };
        let replay = replayed(text, options);
        let offsets: Vec<u64> = replay.iter().map(|one| one.2).collect();
        assert_eq!(offsets, [8192, 0]);
    }

    #[test]
    fn totals_files_and_notes_are_those_of_the_log() {
        let log = load(THREE.trim_end(), JobLogOptions::default()).unwrap();
        let totals = &log.totals;
        assert_eq!((totals.reads, totals.writes, totals.flushes), (2, 1, 1));
        assert_eq!((totals.end_byte, totals.end_line), (66_048, 10));
        assert_eq!(log.duration(), Nanoseconds::from_millis(250));
        assert_eq!(log.files, ["f"]);
        assert_eq!(
            log.notes(),
            [
                "leaves out 1 trims or range flushes, as fio 3.33 does",
                "reads a log whose last line, 10, has no end: it may be cut off"
            ]
        );
    }

    #[test]
    fn bad_logs_are_refused_with_one_clear_line() {
        for (text, wanted) in [
            (
                "",
                ": is empty: expected a log of fio, which begins with `fio version 3 iolog`",
            ),
            (
                "fio version 1 iolog\n",
                ": begins with a version of fio's log that is not read: expected `fio version 2 iolog` or `fio version 3 iolog`",
            ),
            (
                "[a]\nrw=read\n",
                ": is no log of fio: expected `fio version 2 iolog` or `fio version 3 iolog` in its first line",
            ),
            (
                "\x07tae\x01\x02",
                ": is blktrace's binary; make a log of it: wakepath workload extract NAME -o trace.log",
            ),
            (
                "1,a,0,Read,0,512,1\n",
                ": is a block trace, and no log of fio: give it to `wakepath sim` instead of a job file",
            ),
            (
                "fio version 3 iolog\n0 f add\n0 f sync 0 0\n",
                ": no read or write in 3 line(s)",
            ),
            (
                "fio version 3 iolog\n0 f read 0 0\n",
                ":2: a read of 0 bytes: the trace is damaged",
            ),
            (
                "fio version 3 iolog\n0 f read 0 4096\n5 f sync 0 512\n",
                ":3: a flush of 512 bytes, at which fio's engines fail: its own logs have 0",
            ),
            (
                "fio version 3 iolog\n0 f read 0 4096\n5 f re",
                ":3: `5 f re` is no line of fio's log: expected a time, a file, an action, an offset and a length; this last line has \
                 no end: remove it to take what stands before",
            ),
            (
                "fio version 3 iolog\n0 f read 18446744073709551615 4096\n",
                ":2: a read of 4096 bytes at byte 18446744073709551615: its end is beyond all addresses: the trace is damaged",
            ),
            (
                "fio version 2 iolog\nf wait 300\nf read 0 4096\n",
                ":2: fio 3.33 passes over a wait without a length; write `FILE wait MILLISECONDS 0`",
            ),
            (
                "fio version 2 iolog\nf wait 18446744073709551615 0\nf read 0 4096\n",
                ":2: the wait 18446744073709551615 is too large",
            ),
        ] {
            let message = load(text, JobLogOptions::default())
                .unwrap_err()
                .to_string();
            assert!(message.ends_with(&format!("/log{wanted}")), "{message}");
        }
        let missing = JobLog::load(Path::new("no/such.log"), JobLogOptions::default());
        let message = missing.unwrap_err().to_string();
        assert!(
            message.starts_with("no/such.log: cannot open: "),
            "{message}"
        );
    }

    proptest! {
        /// Whatever is in a log, it is replayed or refused with one line.
        #[test]
        fn any_log_is_read_or_refused(text in "[0-9a-z .\n]{0,200}", version in 2_u8..4) {
            match load(&format!("fio version {version} iolog\n{text}"), JobLogOptions::default()) {
                Ok(log) => prop_assert!(log.totals.requests() > 0),
                Err(e) => prop_assert!(!e.to_string().contains('\n')),
            }
        }

        /// No time is lost: all delays of a log in order add up to its last time.
        #[test]
        fn delays_add_up(times in prop::collection::vec(1_u64..1_000_000, 1..60)) {
            let mut sorted = times;
            sorted.sort_unstable();
            let mut lines = String::new();
            for time in &sorted {
                let _ = writeln!(lines, "{time} f read 0 512");
            }
            let replay = replayed(&format!("fio version 3 iolog\n{lines}"), JobLogOptions::default());
            let sum: u64 = replay.iter().map(|one| one.0).sum();
            prop_assert_eq!(sum, sorted[sorted.len() - 1] - sorted[0]);
        }
    }
}
