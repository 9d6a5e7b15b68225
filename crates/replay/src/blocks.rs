//! Division of a recording into blocks of equal time. Differences between the blocks' sums show how
//! much chance is in the whole.
//!
//! An idle period counts for the block in which the period began. Governors keep their history from block to block.

use std::ops::Range;

/// Most blocks of time in a replay. Each block has sums for every governor on every CPU.
pub const MAX_BLOCKS: usize = 1000;

/// The blocks of equal time that a recording is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    first: u64,
    last: u64,
    count: usize,
}

impl Blocks {
    /// Divides the time from the first event to the last, in ns, into `count` equal blocks.
    pub(crate) fn new(first: u64, last: u64, count: usize) -> Self {
        Self {
            first,
            // A recording with a single time still gets a block.
            last: last.max(first.saturating_add(1)),
            count: count.max(1),
        }
    }

    pub(crate) fn block_count(&self) -> usize {
        self.count
    }

    /// Start of a block in ns. The number after the last block gives the end of the recording.
    pub(crate) fn start_of_block(&self, block: usize) -> u64 {
        let span = u128::from(self.last - self.first);
        let before = (span * block as u128).div_ceil(self.count as u128);
        self.first + u64::try_from(before).unwrap_or(u64::MAX)
    }

    /// Length of some consecutive blocks together, in ns.
    pub(crate) fn total_duration(&self, blocks: Range<usize>) -> u64 {
        self.start_of_block(blocks.end)
            .saturating_sub(self.start_of_block(blocks.start))
    }

    /// Times that count for a block, in ns. Times before the recording belong to the first block,
    /// and later times to the last.
    pub(crate) fn times_of_block(&self, block: usize) -> Range<u64> {
        let from = if block == 0 {
            0
        } else {
            self.start_of_block(block)
        };
        let to = if block + 1 >= self.count {
            u64::MAX
        } else {
            self.start_of_block(block + 1)
        };
        from..to
    }

    /// Index of the block that a time in ns belongs to.
    fn block_at(&self, time: u64) -> usize {
        let span = u128::from((self.last - self.first).max(1));
        let since = u128::from(time.saturating_sub(self.first));
        let block = since * self.count as u128 / span;
        usize::try_from(block).map_or(self.count - 1, |block| block.min(self.count - 1))
    }
}

/// Memory of the block of time that was looked up last: most often the next time is in the same
/// block.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockCursor {
    block: usize,
    range: Range<u64>,
}

impl BlockCursor {
    /// Index of the block that a time in ns belongs to; quick if it is the last one looked up.
    #[inline(always)]
    pub(crate) fn block_at(&mut self, blocks: &Blocks, time: u64) -> usize {
        if !self.range.contains(&time) {
            self.look_up_block(blocks, time);
        }
        self.block
    }

    /// End of the block that was looked up last, in ns.
    pub(crate) fn end_of_last_block(&self) -> u64 {
        self.range.end
    }

    #[cold]
    fn look_up_block(&mut self, blocks: &Blocks, time: u64) {
        self.block = blocks.block_at(time);
        self.range = blocks.times_of_block(self.block);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_time_is_in_one_block_and_blocks_are_equally_long(
            first in 0_u64..1 << 50,
            span in 1_u64..1 << 50,
            count in 1_usize..=MAX_BLOCKS,
            share in 0.0_f64..1.2,
        ) {
            let blocks = Blocks::new(first, first + span, count);
            prop_assert_eq!(blocks.start_of_block(0), first);
            prop_assert_eq!(blocks.start_of_block(count), first + span);
            for block in 0..count {
                let length = blocks.start_of_block(block + 1) - blocks.start_of_block(block);
                prop_assert!(length.abs_diff(span / count as u64) <= 1);
            }
            let time = (first as f64 + (share - 0.1) * span as f64) as u64;
            for time in [0, time, blocks.start_of_block(count / 2), u64::MAX] {
                let holders: Vec<usize> = (0..count)
                    .filter(|block| blocks.times_of_block(*block).contains(&time) || (time == u64::MAX && block + 1 == count))
                    .collect();
                prop_assert_eq!(holders, [blocks.block_at(time)], "{}", time);
            }
        }
    }
}
