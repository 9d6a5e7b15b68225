//! Requests in the order read, each with the end where the trace says so.

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;

use super::error::{LineProblem, TraceProblem};
use super::format::{BlockTraceFormat, LineParser};
use super::line::TraceLine;
use super::lines::Lines;
use super::merged_records::MergedRecords;
use super::request::TraceIo;

/// Most disks or files in a trace.
const MAX_DISKS: usize = 4096;

/// Most requests held until an earlier request's end is read: more than any drive has in flight.
const MAX_OPEN: usize = 1 << 16;

/// A request with its place in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlacedRequest {
    /// Begin in ns, on the trace's clock; the first key of the order.
    pub(super) time: u64,
    /// Number of the line or record, counted from 1.
    pub(super) line: u64,
    /// Disk number, by first appearance.
    pub(super) disk: usize,
    pub(super) io: TraceIo,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// End in ns, where the trace says so.
    pub(super) ended: Option<u64>,
}

/// Disks or files, numbered by first appearance.
#[derive(Debug, Default)]
pub(super) struct DiskNumbers {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    last: usize,
}

impl DiskNumbers {
    /// Names by number.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// A disk's number.
    ///
    /// # Errors
    /// There would be more than [`MAX_DISKS`].
    pub(super) fn find_or_add_in_line(
        &mut self,
        name: &str,
        line: u64,
    ) -> Result<usize, LineProblem> {
        self.find_or_add(name).ok_or_else(|| LineProblem {
            line,
            message: format!("more than {MAX_DISKS} disks or files"),
        })
    }

    /// A disk's number; `None` beyond the most disks.
    fn find_or_add(&mut self, name: &str) -> Option<usize> {
        if self.names.get(self.last).is_some_and(|last| last == name) {
            return Some(self.last);
        }
        if let Some(number) = self.numbers.get(name) {
            self.last = *number;
            return Some(self.last);
        }
        if self.names.len() == MAX_DISKS {
            return None;
        }
        self.last = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.last);
        Some(self.last)
    }
}

/// A request that may end in a later line.
#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    request: PlacedRequest,
    is_ended: bool,
}

/// A trace's events, as lines or records.
#[derive(Debug)]
enum EventSource<R> {
    Lines { lines: Lines<R>, parser: LineParser },
    Records(MergedRecords<R>),
}

/// Reads requests one after the other.
#[derive(Debug)]
pub(super) struct ParsedRequests<R> {
    source: EventSource<R>,
    pairing: RequestPairing,
    is_at_end: bool,
}

/// Requests waiting for their ends.
#[derive(Debug)]
struct RequestPairing {
    disks: DiskNumbers,
    /// Whether requests wait until their end is read.
    pairs_ends: bool,
    /// Waiting requests in line order, and the first waiting request's number.
    open: VecDeque<OpenRequest>,
    first_open: u64,
    /// Waiting requests' numbers by disk and first byte; the latest number wins.
    by_place: HashMap<(usize, u64), u64>,
}

impl<R: BufRead> ParsedRequests<R> {
    /// Reads a text. `wants_ends`: each request gets its end, also from later lines.
    pub(super) fn new(reader: R, format: BlockTraceFormat, wants_ends: bool) -> Self {
        let source = EventSource::Lines {
            lines: Lines::new(reader),
            parser: LineParser::new(format),
        };
        Self::from_source(source, wants_ends && format.has_ends_in_own_lines())
    }

    /// Reads binary records. `wants_ends`: each request gets its end from a later record.
    pub(super) fn from_records(records: MergedRecords<R>, wants_ends: bool) -> Self {
        Self::from_source(EventSource::Records(records), wants_ends)
    }

    fn from_source(source: EventSource<R>, pairs_ends: bool) -> Self {
        Self {
            source,
            pairing: RequestPairing {
                disks: DiskNumbers::default(),
                pairs_ends,
                open: VecDeque::new(),
                first_open: 0,
                by_place: HashMap::new(),
            },
            is_at_end: false,
        }
    }

    /// Names of the disks so far, by number.
    pub(super) fn disk_names(&self) -> &[String] {
        self.pairing.disks.names()
    }

    /// How much has been read, in words.
    pub(super) fn describe_length(&self) -> String {
        match &self.source {
            EventSource::Lines { lines, .. } => format!("{} line(s)", lines.last_line_number()),
            EventSource::Records(records) => format!("{} record(s)", records.record_count()),
        }
    }

    /// Number of the last line read, if it lacks a line feed.
    pub(super) fn unended_line(&self) -> Option<u64> {
        match &self.source {
            EventSource::Lines { lines, .. } => {
                (!lines.is_last_line_ended()).then(|| lines.last_line_number())
            }
            EventSource::Records(_) => None,
        }
    }

    /// The next request; `None` after the last.
    ///
    /// # Errors
    /// A line or record cannot be understood.
    pub(super) fn next_request(&mut self) -> Result<Option<PlacedRequest>, TraceProblem> {
        loop {
            if let Some(request) = self.pairing.take_first_if_settled(self.is_at_end) {
                return Ok(Some(request));
            }
            if self.is_at_end {
                return Ok(None);
            }
            let request = self.read_event()?;
            if request.is_some() {
                return Ok(request);
            }
        }
    }

    /// Reads a line or record. Returns its request, unless the request waits for its end.
    fn read_event(&mut self) -> Result<Option<PlacedRequest>, TraceProblem> {
        match &mut self.source {
            EventSource::Lines { lines, parser } => {
                let read = read_line(lines, parser, &mut self.pairing, &mut self.is_at_end);
                Ok(read.map_err(|problem| lines.explain_problem_in_cut_line(problem))?)
            }
            EventSource::Records(records) => {
                let number = records.record_count() + 1;
                let Some(event) = records.next_event()? else {
                    self.is_at_end = true;
                    return Ok(None);
                };
                Ok(self.pairing.take_event(number, event)?)
            }
        }
    }
}

/// Reads a line. Returns its request, unless the request waits for its end.
fn read_line<R: BufRead>(
    lines: &mut Lines<R>,
    parser: &mut LineParser,
    pairing: &mut RequestPairing,
    is_at_end: &mut bool,
) -> Result<Option<PlacedRequest>, LineProblem> {
    let line = lines.last_line_number() + 1;
    let Some(text) = lines.next_line()? else {
        *is_at_end = true;
        return Ok(None);
    };
    let parsed = (parser.parse_line(&text)).map_err(|message| LineProblem { line, message })?;
    pairing.take_event(line, parsed)
}

impl RequestPairing {
    /// The first open request, if its end is known or cannot be waited for.
    fn take_first_if_settled(&mut self, is_at_end: bool) -> Option<PlacedRequest> {
        let is_settled = is_at_end
            || self.open.len() > MAX_OPEN
            || self.open.front().is_some_and(|first| first.is_ended);
        if !is_settled {
            return None;
        }
        let first = self.open.pop_front()?.request;
        let place = (first.disk, first.offset);
        if self.by_place.get(&place) == Some(&self.first_open) {
            self.by_place.remove(&place);
        }
        self.first_open += 1;
        Some(first)
    }

    /// Takes an event with the line's or record's number. Returns the request, unless the request waits for an end.
    fn take_event(
        &mut self,
        line: u64,
        event: TraceLine<'_>,
    ) -> Result<Option<PlacedRequest>, LineProblem> {
        match event {
            TraceLine::Request(found) => {
                let disk = self.disks.find_or_add_in_line(found.disk, line)?;
                let request = PlacedRequest {
                    time: found.time,
                    line,
                    disk,
                    io: found.io,
                    offset: found.offset,
                    bytes: found.bytes,
                    ended: found.ended,
                };
                if !self.pairs_ends {
                    return Ok(Some(request));
                }
                // A flush has no place by which its end could be found.
                let is_flush = request.io == TraceIo::Flush;
                if !is_flush {
                    let number = self.first_open + self.open.len() as u64;
                    self.by_place.insert((disk, request.offset), number);
                }
                self.open.push_back(OpenRequest {
                    request,
                    is_ended: is_flush,
                });
            }
            TraceLine::End(end) if self.pairs_ends => {
                if let Some(disk) = self.disks.find_or_add(end.disk)
                    && let Some(number) = self.by_place.remove(&(disk, end.offset))
                    && let Some(open) = self.open.get_mut((number - self.first_open) as usize)
                {
                    open.request.ended = Some(end.time.max(open.request.time));
                    open.is_ended = true;
                }
            }
            TraceLine::End(_) | TraceLine::Other => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str, format: BlockTraceFormat, wants_ends: bool) -> Vec<PlacedRequest> {
        let mut parsed = ParsedRequests::new(text.as_bytes(), format, wants_ends);
        std::iter::from_fn(|| parsed.next_request().unwrap()).collect()
    }

    #[test]
    fn ends_in_later_lines_are_found_by_their_places() {
        let text = "8,0 0 1 0.000000000 5 D R 8 + 8 [x]\n8,0 0 2 0.000000010 5 D W 80 + 8 [x]\n\
                    8,0 0 3 0.000000020 0 C W 80 + 8 [0]\n8,0 0 4 0.000000030 5 D FN [x]\n\
                    8,0 0 5 0.000000040 0 C R 8 + 8 [0]\n8,0 0 6 0.000000050 5 D R 8 + 8 [x]\n";
        let read = requests(text, BlockTraceFormat::Blkparse, true);
        let ends: Vec<_> = read.iter().map(|r| (r.time, r.ended)).collect();
        let wanted = [(0, Some(40)), (10, Some(20)), (30, None), (50, None)];
        assert_eq!(ends, wanted);
        let without = requests(text, BlockTraceFormat::Blkparse, false);
        assert!(without.iter().all(|r| r.ended.is_none()) && without.len() == 4);
    }

    #[test]
    fn problems_have_their_line() {
        let text = "1,a,0,Read,0,512,1\n2,a,0,Read,0,0,1\n";
        let mut parsed = ParsedRequests::new(text.as_bytes(), BlockTraceFormat::MsrCambridge, true);
        assert!(parsed.next_request().unwrap().is_some());
        let problem = parsed.next_request().unwrap_err();
        let wanted = LineProblem {
            line: 2,
            message: "a read of 0 bytes: the trace is damaged".to_owned(),
        };
        assert_eq!(problem, TraceProblem::Line(wanted));
    }
}
