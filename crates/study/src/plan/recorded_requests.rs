//! Block requests of one drive in a recording, read one after the other: a recording may be longer than the memory.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use wakepath_trace::recording::{Block, Event, EventKind, Reader, RecordingError};
use wakepath_units::Nanoseconds;
use wakepath_units::causes::with_causes;
use wakepath_workloads::block_trace::{
    BlockTraceError, BlockTraceRequest, RecordedRequests, RequestRecording, TraceIo,
};

/// Bytes of a sector in recordings.
const SECTOR: u64 = 512;

/// Most requests that wait for the end of an earlier one, or for their place in time: more than any drive has in flight.
const WINDOW: usize = 1 << 16;

/// A drive in a recording.
#[derive(Debug)]
pub(super) struct RecordedDrive {
    pub(super) path: PathBuf,
    /// The drive's number in the recording.
    pub(super) device: u32,
}

impl RequestRecording for RecordedDrive {
    fn read_requests(&self) -> Result<RecordedRequests, BlockTraceError> {
        let origin = self.path.display().to_string();
        let reader = Reader::open(&self.path).map_err(|e| describe_error(&origin, &e))?;
        Ok(Box::new(RequestsOfDrive {
            reader,
            device: self.device,
            origin,
            held: HeldRequests::default(),
            last: Nanoseconds::ZERO,
            is_over: false,
        }))
    }
}

fn describe_error(origin: &str, error: &RecordingError) -> BlockTraceError {
    BlockTraceError {
        origin: origin.to_owned(),
        line: None,
        message: with_causes(error),
    }
}

/// Reads a drive's requests in order of time, each with its end where the recording has it.
struct RequestsOfDrive {
    reader: Reader,
    device: u32,
    origin: String,
    held: HeldRequests,
    /// Begin of the last request handed on.
    last: Nanoseconds,
    is_over: bool,
}

impl RequestsOfDrive {
    fn next_request(&mut self) -> Result<Option<BlockTraceRequest>, RecordingError> {
        while !self.is_over && self.held.by_begin.len() <= WINDOW {
            let Some(batch) = self.reader.next_batch()? else {
                self.is_over = true;
                break;
            };
            let (held, device) = (&mut self.held, self.device);
            batch.for_each_event(|event| {
                held.follow_event(&event, device);
                Ok::<(), RecordingError>(())
            })?;
        }
        Ok(self.held.take_first())
    }
}

impl Iterator for RequestsOfDrive {
    type Item = Result<BlockTraceRequest, BlockTraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let request = match self.next_request() {
            Ok(request) => request?,
            Err(error) => {
                (self.is_over, self.held) = (true, HeldRequests::default());
                return Some(Err(describe_error(&self.origin, &error)));
            }
        };
        if request.begin < self.last {
            (self.is_over, self.held) = (true, HeldRequests::default());
            let message = format!(
                "a request is {:.6} s earlier than one that stands more than {WINDOW} requests before it",
                (self.last.0 - request.begin.0) as f64 / 1e9
            );
            return Some(Err(BlockTraceError {
                origin: self.origin.clone(),
                line: None,
                message,
            }));
        }
        self.last = request.begin;
        Some(Ok(request))
    }
}

/// Place of a request in order of time: its begin in ns and, at one time, its number in the file.
type Place = (u64, u64);

/// Requests that have been read and not handed on.
#[derive(Default)]
struct HeldRequests {
    /// Each with its sector.
    by_begin: BTreeMap<Place, (BlockTraceRequest, u64)>,
    /// Held requests without an end so far, by sector; the latest one wins.
    in_flight: HashMap<u64, Place>,
    count: u64,
}

impl HeldRequests {
    fn follow_event(&mut self, event: &Event, device: u32) {
        match &event.kind {
            EventKind::BlockIssue(block) if block.device == device => {
                let place = (event.time.0, self.count);
                self.count += 1;
                self.in_flight.insert(block.sector, place);
                let request = begun_request(event.time, block);
                self.by_begin.insert(place, (request, block.sector));
            }
            EventKind::BlockComplete(block) if block.device == device => {
                let place = self.in_flight.remove(&block.sector);
                if let Some((request, _)) = place.and_then(|place| self.by_begin.get_mut(&place)) {
                    request.end = Some(event.time.max(request.begin));
                }
            }
            // Ends may be among the lost events, so that later ones belong to other requests.
            EventKind::Lost { .. } => self.in_flight.clear(),
            _ => {}
        }
    }

    fn take_first(&mut self) -> Option<BlockTraceRequest> {
        let (place, (request, sector)) = self.by_begin.pop_first()?;
        if self.in_flight.get(&sector) == Some(&place) {
            self.in_flight.remove(&sector);
        }
        Some(request)
    }
}

/// A request at its begin. One without data is a flush: the kernel sends no other to a drive.
fn begun_request(begin: Nanoseconds, block: &Block) -> BlockTraceRequest {
    let bytes = u64::from(block.bytes);
    let io = match (bytes, block.write) {
        (0, _) => TraceIo::Flush,
        (_, true) => TraceIo::Write,
        (_, false) => TraceIo::Read,
    };
    let offset = block.sector.checked_mul(SECTOR).filter(|_| bytes > 0);
    BlockTraceRequest {
        begin,
        io,
        offset: offset
            .filter(|offset| offset.checked_add(bytes).is_some())
            .unwrap_or(0),
        bytes,
        end: None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wakepath_trace::recording::{Metadata, Overwrite, Writer};

    use super::*;

    /// A recording of these events on CPU 0, with times in us.
    fn write_events(path: &Path, events: &[(u64, EventKind)]) {
        let mut writer = Writer::create(path, Overwrite::No, Metadata::default()).unwrap();
        for (us, kind) in events {
            let event = Event {
                time: Nanoseconds::from_micros(*us),
                cpu: 0,
                kind: *kind,
            };
            writer.add_event(&event).unwrap();
        }
        writer.finish_and_count_events().unwrap();
    }

    fn block(sector: u64, bytes: u32, write: bool) -> Block {
        Block {
            device: 1,
            sector,
            bytes,
            write,
        }
    }

    fn read(events: &[(u64, EventKind)]) -> Vec<Result<BlockTraceRequest, BlockTraceError>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.parquet");
        write_events(&path, events);
        let drive = RecordedDrive { path, device: 1 };
        drive.read_requests().unwrap().collect()
    }

    #[test]
    fn requests_have_their_ends_and_flushes_are_kept() {
        let issue = |sector, bytes, write| EventKind::BlockIssue(block(sector, bytes, write));
        let complete = |sector, bytes| EventKind::BlockComplete(block(sector, bytes, false));
        let other = Block {
            device: 2,
            ..block(0, 4096, false)
        };
        let requests = read(&[
            (10, issue(8, 4096, false)),
            (11, EventKind::BlockIssue(other)),
            (20, issue(16, 8192, true)),
            (30, complete(16, 8192)),
            (40, complete(8, 4096)),
            // As the kernel sends it: no write, and no place.
            (50, issue(u64::MAX, 0, false)),
            (90, complete(u64::MAX, 0)),
            (100, issue(8, 4096, false)),
            (101, EventKind::Lost { count: 1 }),
            (110, complete(8, 4096)),
        ]);
        let found: Vec<_> = (requests.into_iter())
            .map(|request| {
                let request = request.unwrap();
                let us = |time: Nanoseconds| time.0 / 1000;
                (us(request.begin), request.io, request.end.map(us))
            })
            .collect();
        assert_eq!(
            found,
            [
                (10, TraceIo::Read, Some(40)),
                (20, TraceIo::Write, Some(30)),
                (50, TraceIo::Flush, Some(90)),
                (100, TraceIo::Read, None),
            ]
        );
    }

    #[test]
    fn requests_without_ends_are_handed_on_all_the_same() {
        let events: Vec<(u64, EventKind)> = (0..WINDOW as u64 * 2 + 7)
            .map(|number| (number, EventKind::BlockIssue(block(number, 512, false))))
            .collect();
        let requests = read(&events);
        assert_eq!(requests.len(), events.len());
        assert!(
            requests
                .into_iter()
                .all(|request| request.unwrap().end.is_none())
        );
    }

    #[test]
    fn a_request_far_from_its_place_in_time_is_an_error() {
        let mut events: Vec<(u64, EventKind)> = (0..WINDOW as u64 * 2)
            .map(|number| {
                (
                    1000 + number,
                    EventKind::BlockIssue(block(number, 512, false)),
                )
            })
            .collect();
        events.push((10, EventKind::BlockIssue(block(0, 512, false))));
        let requests = read(&events);
        let error = requests.last().unwrap().clone().unwrap_err().to_string();
        assert!(
            error.contains("stands more than 65536 requests before it"),
            "{error}"
        );
    }
}
