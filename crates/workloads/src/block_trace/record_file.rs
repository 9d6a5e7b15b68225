//! A blktrace file: 48-byte records, each with further bytes behind.
//!
//! `struct blk_io_trace` (`include/uapi/linux/blktrace_api.h`, Linux 6.12), in the byte order of the traced machine.

use std::io::BufRead;

use super::blkparse::{RequestAction, SECTOR};
use super::error::BlockTraceError;
use super::request::TraceIo;

/// A record's bytes, without further ones behind.
const RECORD_BYTES: usize = 48;

/// A record's first number without the last byte, the format's version.
const MAGIC: u32 = 0x0065_6174;

/// The format's version: a record's numbers and places.
const VERSION: u32 = 7;

/// Plausible versions in a damaged or foreign file; greater numbers may begin a text.
const LIKELY_VERSIONS: std::ops::RangeInclusive<u32> = 1..=8;

/// Bits in a record's action for the event (`enum blktrace_act`).
const ACT_MASK: u32 = 0xff;
const ACT_QUEUE: u32 = 1;
const ACT_ISSUE: u32 = 7;
const ACT_COMPLETE: u32 = 8;

/// Bits in a record's action for the request's kind (`enum blktrace_cat`).
const WRITES: u32 = 1 << 17;
const FLUSHES: u32 = 1 << 18;
const IS_COMMAND: u32 = 1 << 25;
const IS_MESSAGE: u32 = 1 << 26;
const DISCARDS: u32 = 1 << 29;

/// Byte order in a file's first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordMark {
    /// This machine's byte order; any version.
    Native,
    /// The other byte order.
    Swapped,
}

/// Tells a blktrace file by the first bytes, `begin`.
pub(super) fn find_record_mark(begin: &[u8]) -> Option<RecordMark> {
    let first = u32::from_ne_bytes(begin.get(..4)?.try_into().ok()?);
    let is_mark = |number: u32| number >> 8 == MAGIC && LIKELY_VERSIONS.contains(&(number & 0xff));
    if is_mark(first) {
        Some(RecordMark::Native)
    } else {
        is_mark(first.swap_bytes()).then_some(RecordMark::Swapped)
    }
}

/// A request's event. The order is by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TraceRecord {
    /// Time in ns, on the traced machine's clock.
    pub(super) time: u64,
    /// Byte in the file where the record begins.
    pub(super) begins_at: u64,
    pub(super) sector: u64,
    pub(super) bytes: u32,
    action: u32,
    pub(super) device: u32,
}

impl TraceRecord {
    /// Whether a request was dispatched or queued; `None`: something else happened.
    pub(super) fn request_action(&self) -> Option<RequestAction> {
        match self.act() {
            ACT_ISSUE => Some(RequestAction::Dispatch),
            ACT_QUEUE => Some(RequestAction::Queue),
            _ => None,
        }
    }

    /// Whether a request with a place ended.
    pub(super) fn ends_request(&self) -> bool {
        self.act() == ACT_COMPLETE && self.action & IS_COMMAND == 0 && self.sectors() > 0
    }

    /// The request's kind, as `blkparse` prints; `None`: a drive's own command, or neither data nor flush.
    pub(super) fn io(&self) -> Option<TraceIo> {
        let flushes = (self.action & FLUSHES > 0).then_some(TraceIo::Flush);
        if self.action & IS_COMMAND > 0 {
            None
        } else if self.sectors() == 0 {
            flushes
        } else if self.action & DISCARDS > 0 {
            Some(TraceIo::Trim)
        } else if self.action & WRITES > 0 {
            Some(TraceIo::Write)
        } else {
            Some(TraceIo::Read)
        }
    }

    /// The request's whole sectors.
    pub(super) fn sectors(&self) -> u64 {
        u64::from(self.bytes) / SECTOR
    }

    fn act(&self) -> u32 {
        if self.action & IS_MESSAGE > 0 {
            return 0;
        }
        self.action & ACT_MASK
    }
}

/// Reads a file's records.
#[derive(Debug)]
pub(super) struct RecordFile<R> {
    /// Name for messages.
    name: String,
    reader: R,
    /// First byte behind the last record.
    offset: u64,
}

impl<R: BufRead> RecordFile<R> {
    pub(super) fn new(name: String, reader: R) -> Self {
        let offset = 0;
        Self {
            name,
            reader,
            offset,
        }
    }

    /// Bytes so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// An error about the record at a byte.
    pub(super) fn explain_problem(&self, begins_at: u64, message: &str) -> BlockTraceError {
        let message = format!("the record at byte {begins_at}: {message}");
        BlockTraceError::for_whole_trace(&self.name, message)
    }

    /// The next record; `None` after the last.
    ///
    /// # Errors
    /// The record is damaged or cut off, has another byte order or version, or the file cannot be read.
    pub(super) fn next_record(&mut self) -> Result<Option<TraceRecord>, BlockTraceError> {
        let begins_at = self.offset;
        let mut bytes = [0; RECORD_BYTES];
        let read = self.read_up_to(&mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        if read >= 4 {
            self.check_mark(&bytes, begins_at)?;
        }
        if read < RECORD_BYTES {
            return Err(self.explain_cut(begins_at));
        }
        let behind = u16::from_ne_bytes([bytes[46], bytes[47]]);
        if self.skip_bytes(usize::from(behind))? < usize::from(behind) {
            return Err(self.explain_cut(begins_at));
        }
        self.offset += RECORD_BYTES as u64 + u64::from(behind);
        Ok(Some(TraceRecord {
            time: long(&bytes, 8),
            begins_at,
            sector: long(&bytes, 16),
            bytes: int(&bytes, 24),
            action: int(&bytes, 28),
            device: int(&bytes, 36),
        }))
    }

    fn check_mark(
        &self,
        bytes: &[u8; RECORD_BYTES],
        begins_at: u64,
    ) -> Result<(), BlockTraceError> {
        let first = int(bytes, 0);
        let message = match find_record_mark(bytes) {
            Some(RecordMark::Native) if first & 0xff == VERSION => return Ok(()),
            Some(RecordMark::Native) => format!(
                "version {} of blktrace's format, and only {VERSION} is read; make text of the trace: blkparse -i NAME >trace.txt",
                first & 0xff
            ),
            Some(RecordMark::Swapped) => SWAPPED.to_owned(),
            None => format!(
                "it begins with {first:#010x} instead of {:#010x}: the trace is damaged",
                MAGIC << 8 | VERSION
            ),
        };
        Err(self.explain_problem(begins_at, &message))
    }

    fn explain_cut(&self, begins_at: u64) -> BlockTraceError {
        let message = format!(
            "the trace is cut off in it; `truncate -s {begins_at}` makes a file of what stands before"
        );
        self.explain_problem(begins_at, &message)
    }

    /// Fills the bytes as far as the file goes. Returns the number filled.
    fn read_up_to(&mut self, bytes: &mut [u8]) -> Result<usize, BlockTraceError> {
        let mut read = 0;
        while read < bytes.len() {
            let held = self.fill_buffer()?;
            if held.is_empty() {
                break;
            }
            let taken = held.len().min(bytes.len() - read);
            bytes[read..read + taken].copy_from_slice(&held[..taken]);
            self.reader.consume(taken);
            read += taken;
        }
        Ok(read)
    }

    /// Passes over bytes as far as the file goes. Returns the number passed.
    fn skip_bytes(&mut self, count: usize) -> Result<usize, BlockTraceError> {
        let mut skipped = 0;
        while skipped < count {
            let held = self.fill_buffer()?.len();
            if held == 0 {
                break;
            }
            let taken = held.min(count - skipped);
            self.reader.consume(taken);
            skipped += taken;
        }
        Ok(skipped)
    }

    fn fill_buffer(&mut self) -> Result<&[u8], BlockTraceError> {
        let (name, offset) = (&self.name, self.offset);
        self.reader.fill_buf().map_err(|e| {
            let message = format!("cannot read behind byte {offset}: {e}");
            BlockTraceError::for_whole_trace(name, message)
        })
    }
}

/// The hint for records in the other byte order.
pub(super) const SWAPPED: &str = "is blktrace's binary of a machine with the other byte order; make text of it: blkparse -i \
                                  NAME >trace.txt";

/// The 32-bit number at a place.
fn int(bytes: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The 64-bit number at a place.
fn long(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(field)
}
