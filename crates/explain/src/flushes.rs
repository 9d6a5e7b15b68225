//! Flushes of the block layer, and writes that end behind one: such a write completes twice, with its data and without.

use std::collections::VecDeque;

use wakepath_trace::recording::Block;

/// Writes remembered per drive. Other writes may complete during a flush.
const MAX_WRITES: usize = 64;
/// Bytes of a sector.
const SECTOR: u32 = 512;

/// A write whose data completed.
#[derive(Clone, Copy)]
struct WrittenData {
    sector: u64,
    end: u64,
    request: usize,
}

/// A drive's latest writes with data.
#[derive(Default)]
pub(crate) struct RecentWrites {
    writes: VecDeque<WrittenData>,
}

impl RecentWrites {
    /// Remembers a completed write by the index of the request, and forgets the oldest of more than 64.
    pub(crate) fn remember_write(&mut self, block: &Block, request: usize) {
        if self.writes.len() >= MAX_WRITES {
            self.writes.pop_front();
        }
        self.writes.push_back(WrittenData {
            sector: block.sector,
            end: block
                .sector
                .saturating_add(u64::from(block.bytes.div_ceil(SECTOR))),
            request,
        });
    }

    /// Removes the latest write that ends at this sector without data, and returns the index of the request. The sector is the
    /// write's first (`blk_flush_restore_request()`, Linux 6.18), or the sector behind its last, where the kernel leaves the
    /// request as the data left it (Linux 6.1).
    pub(crate) fn take_write(&mut self, sector: u64) -> Option<usize> {
        let writes = self.writes.iter();
        let begun = writes.clone().rposition(|write| write.sector == sector);
        let place = begun.or_else(|| writes.clone().rposition(|write| write.end == sector))?;
        self.writes.remove(place).map(|write| write.request)
    }
}

/// What tells requests in flight apart: device, first sector, direction. A flush has no sector, and completes with another
/// number there than it was issued with in traces (`blk_rq_trace_sector()`, Linux 6.12).
pub(crate) fn key_in_flight(block: &Block) -> (u32, u64, bool) {
    let is_flush = block.bytes == 0 && !block.write && block.sector == u64::MAX;
    (
        block.device,
        if is_flush { 0 } else { block.sector },
        block.write,
    )
}
