//! A CPU's events: the kernel's ring buffer, page by page.

use super::header::{CpuData, Header};
use super::unpack::unpack_zstd;
use crate::import::ReadAt;
use crate::import::formats::decode_unsigned;

/// Flags beside the number of bytes used (`kernel/trace/ring_buffer.c`): events before the page are missing, and their
/// number follows the events.
const MISSED: u64 = 1 << 31;
const MISSED_COUNTED: u64 = 1 << 30;
const USED: u64 = (1 << 27) - 1;

/// Types of a ring buffer's event, in its first five bits; up to 28 these bits are a length in words.
const LENGTH_FOLLOWS: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Number of bits of an event for the time since the event before.
const TIME_BITS: u32 = 27;
/// An absolute time stamp has the lower 59 bits of the time.
const ABSOLUTE_BITS: u32 = 59;

/// The next item in a CPU's ring buffer: an event, or a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// Some of the CPU's events before this time are missing.
    Lost { time: u64, count: Option<u64> },
    /// An event, in the current page from `start` to `end`.
    Event { time: u64, start: usize, end: usize },
}

impl Item {
    pub(super) fn timestamp(self) -> u64 {
        match self {
            Self::Lost { time, .. } | Self::Event { time, .. } => time,
        }
    }
}

/// A CPU's events in order.
pub(super) struct CpuEvents<'a> {
    pub(super) cpu: u32,
    input: &'a dyn ReadAt,
    header: &'a Header,
    /// Offset in the file of the CPU's pages that are still to be read.
    offset: u64,
    end: u64,
    /// Number of compressed chunks left, in a compressed file.
    chunks: u32,
    /// The whole pages that were read or decompressed last.
    block: Vec<u8>,
    /// Offset of the current page in the block.
    page: usize,
    /// Offset of the next event in the block of pages.
    position: usize,
    /// End of the current page's events in the block.
    page_end: usize,
    /// Time stamp of the last event taken.
    stamp: u64,
    lost: Option<MissedEvents>,
}

/// How many of the CPU's events before the current page are missing, if the page says so.
#[derive(Clone, Copy, Debug)]
struct MissedEvents(Option<u64>);

impl<'a> CpuEvents<'a> {
    pub(super) fn new(
        input: &'a dyn ReadAt,
        header: &'a Header,
        data: &CpuData,
    ) -> Result<Self, String> {
        let size = input.size_in_bytes().map_err(|error| error.to_string())?;
        let end = data.offset.checked_add(data.size);
        let Some(end) = end.filter(|end| *end <= size) else {
            return Err(format!(
                "cut off: the events of CPU {} end at byte {}, and the file has {size}",
                data.cpu,
                end.unwrap_or(u64::MAX)
            ));
        };
        let mut events = Self {
            cpu: data.cpu,
            input,
            header,
            offset: data.offset,
            end,
            chunks: 0,
            block: Vec::new(),
            page: 0,
            position: 0,
            page_end: 0,
            stamp: 0,
            lost: None,
        };
        if header.compressed && data.size > 0 {
            events.chunks = events.read_u32_from_file()?;
        }
        Ok(events)
    }

    /// Takes the next event or loss; `None` after the last one.
    pub(super) fn next_item(&mut self) -> Result<Option<Item>, String> {
        loop {
            while self.position >= self.page_end {
                if !self.go_to_next_page()? {
                    return Ok(None);
                }
            }
            if let Some(MissedEvents(count)) = self.lost.take() {
                let time = self.header.stamp_to_nanoseconds(self.stamp);
                return Ok(Some(Item::Lost { time, count }));
            }
            if let Some(item) = self.take_item_on_page()? {
                return Ok(Some(item));
            }
        }
    }

    /// Bytes of an event that [`CpuEvents::next_item`] has just returned.
    pub(super) fn bytes_of_item(&self, item: &Item) -> &[u8] {
        match item {
            Item::Event { start, end, .. } => &self.block[*start..*end],
            Item::Lost { .. } => &[],
        }
    }

    fn peek_u32_at(&self, position: usize) -> Option<u32> {
        let bytes = self.block.get(position..position + 4)?;
        decode_unsigned(bytes, self.header.formats.big_endian).map(|n| n as u32)
    }

    #[inline]
    fn take_item_on_page(&mut self) -> Result<Option<Item>, String> {
        let word = match self.peek_u32_at(self.position) {
            Some(word) if self.position + 4 <= self.page_end => word,
            _ => return Err(self.explain_damage("an event is cut off")),
        };
        let (kind, delta) = if self.header.formats.big_endian {
            (word >> TIME_BITS, u64::from(word & ((1 << TIME_BITS) - 1)))
        } else {
            (word & 31, u64::from(word >> 5))
        };
        let after = self.position + 4;
        let next = match kind {
            PADDING | TIME_EXTEND | TIME_STAMP | LENGTH_FOLLOWS => {
                self.peek_u32_at(after).unwrap_or(0)
            }
            _ => 0,
        };
        let (start, size) = match kind {
            PADDING if delta == 0 => {
                self.position = self.page_end;
                return Ok(None);
            }
            PADDING => {
                self.stamp = self.stamp.wrapping_add(delta);
                self.position = after + (next as usize).max(4);
                return Ok(None);
            }
            TIME_EXTEND => {
                let delta = delta + (u64::from(next) << TIME_BITS);
                self.stamp = self.stamp.wrapping_add(delta);
                self.position = after + 4;
                return Ok(None);
            }
            TIME_STAMP => {
                let lower = delta + (u64::from(next) << TIME_BITS);
                self.stamp = self.stamp >> ABSOLUTE_BITS << ABSOLUTE_BITS | lower;
                self.position = after + 4;
                return Ok(None);
            }
            LENGTH_FOLLOWS => (after + 4, (next as usize).saturating_sub(4)),
            words => (after, 4 * words as usize),
        };
        self.stamp = self.stamp.wrapping_add(delta);
        let end = start + size.next_multiple_of(4);
        if end > self.page_end || size < 2 {
            return Err(self.explain_damage("an event reaches beyond its page"));
        }
        self.position = end;
        Ok(Some(Item::Event {
            time: self.header.stamp_to_nanoseconds(self.stamp),
            start,
            end: start + size,
        }))
    }

    #[cold]
    fn explain_damage(&self, what: &str) -> String {
        format!(
            "damaged: {what}, on CPU {} at {} ns, before byte {} of the file",
            self.cpu,
            self.header.stamp_to_nanoseconds(self.stamp),
            self.offset
        )
    }

    /// Goes to the CPU's next page; `false` after the last one.
    fn go_to_next_page(&mut self) -> Result<bool, String> {
        let size = self.header.page_size as usize;
        self.page += size;
        if self.page >= self.block.len() {
            if !self.read_next_block()? {
                return Ok(false);
            }
            self.page = 0;
        }
        let big_endian = self.header.formats.big_endian;
        let long = self.header.long_size;
        let page = &self.block[self.page..(self.page + size).min(self.block.len())];
        let data = 8 + long;
        let (Some(stamp), Some(commit)) = (
            page.get(..8)
                .and_then(|bytes| decode_unsigned(bytes, big_endian)),
            page.get(8..data)
                .and_then(|bytes| decode_unsigned(bytes, big_endian)),
        ) else {
            return Err(self.explain_damage("a page is cut off"));
        };
        let used = data + (commit & USED) as usize;
        if used > page.len() {
            return Err(self.explain_damage("a page has more events than room"));
        }
        self.lost = (commit & MISSED != 0).then(|| {
            let counted = commit & MISSED_COUNTED != 0;
            let stored = page.get(used..used + long).filter(|_| counted);
            MissedEvents(stored.and_then(|bytes| decode_unsigned(bytes, big_endian)))
        });
        self.stamp = stamp;
        self.position = self.page + data;
        self.page_end = self.page + used;
        Ok(true)
    }

    fn read_u32_from_file(&mut self) -> Result<u32, String> {
        let bytes = self
            .input
            .read_exactly(self.offset, 4, "a chunk of events")?;
        self.offset += 4;
        decode_unsigned(&bytes, self.header.formats.big_endian)
            .map(|n| n as u32)
            .ok_or_else(|| "cut off in a chunk of events".to_owned())
    }

    /// Reads the next pages into memory, or unpacks the next chunk; `false` after the last one.
    fn read_next_block(&mut self) -> Result<bool, String> {
        if self.header.compressed {
            if self.chunks == 0 {
                return Ok(false);
            }
            self.chunks -= 1;
            let packed = self.read_u32_from_file()?;
            let unpacked = self.read_u32_from_file()?;
            let what = format!("a chunk of events of CPU {}", self.cpu);
            let bytes = self
                .input
                .read_exactly(self.offset, u64::from(packed), &what)?;
            self.offset += u64::from(packed);
            self.block = unpack_zstd(&bytes, unpacked, &what)?;
            return Ok(!self.block.is_empty());
        }
        // Up to a megabyte of whole pages at a time.
        let page = u64::from(self.header.page_size);
        let size = (self.end - self.offset).min(((1 << 20) / page).max(1) * page);
        if size == 0 {
            return Ok(false);
        }
        self.block.resize(size as usize, 0);
        let read = self.input.read_up_to(self.offset, &mut self.block)?;
        self.block.truncate(read);
        self.offset += size;
        Ok(read > 0)
    }
}
