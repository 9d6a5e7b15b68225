//! Bitmap with the blocks that a random job has done.

/// A set of blocks with a fast search for the next free block, even if nearly full.
#[derive(Clone, Debug)]
pub(super) struct RandomMap {
    /// One bit per block, set if the block is used. Bits beyond the last block are set, too.
    used: Vec<u64>,
    /// One bit per word in `used`, set if all blocks in the word are used.
    full: Vec<u64>,
}

const BITS: u64 = u64::BITS as u64;

impl RandomMap {
    /// A map with `blocks` blocks, all free.
    pub(super) fn new(blocks: u64) -> Self {
        let used = zeroed_bitmap(blocks);
        let full = zeroed_bitmap(used.len() as u64);
        let mut map = Self { used, full };
        map.mark_blocks_past_end(blocks);
        map
    }

    /// Marks the bits beyond the last block as used, in both levels.
    fn mark_blocks_past_end(&mut self, blocks: u64) {
        set_bits_past_end(&mut self.used, blocks);
        let words = self.used.len() as u64;
        set_bits_past_end(&mut self.full, words);
    }

    /// The first free block from `block` on, or else from the start; `None` if all are used.
    pub(super) fn next_free_block_wrapping(&self, block: u64) -> Option<u64> {
        let (word, bit) = ((block / BITS) as usize, block % BITS);
        if let Some(used) = self.used.get(word) {
            let free = !used & (u64::MAX << bit);
            if free != 0 {
                return Some(word as u64 * BITS + u64::from(free.trailing_zeros()));
            }
        }
        let word = self
            .next_word_with_free_block(word as u64 + 1)
            .or_else(|| self.next_word_with_free_block(0))?;
        let free = !self.used[word as usize];
        Some(word * BITS + u64::from(free.trailing_zeros()))
    }

    /// Index of the first word in `used` with a free block, starting at `word`; `None` if all later words are full.
    fn next_word_with_free_block(&self, word: u64) -> Option<u64> {
        let first = (word / BITS) as usize;
        for (index, full) in self.full.iter().enumerate().skip(first) {
            let mask = if index == first {
                u64::MAX << (word % BITS)
            } else {
                u64::MAX
            };
            let open = !full & mask;
            if open != 0 {
                return Some(index as u64 * BITS + u64::from(open.trailing_zeros()));
            }
        }
        None
    }

    /// Marks up to `count` blocks from `block` on as used, until the first block that is used already. Returns how many
    /// were marked.
    pub(super) fn take_free_blocks(&mut self, block: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count {
            let at = block + taken;
            let (word, bit) = ((at / BITS) as usize, at % BITS);
            let Some(used) = self.used.get_mut(word) else {
                break;
            };
            let free = u64::from((*used >> bit).trailing_zeros()).min(BITS - bit);
            let here = free.min(count - taken);
            if here == 0 {
                break;
            }
            *used |= (u64::MAX >> (BITS - here)) << bit;
            if *used == u64::MAX {
                self.full[word / BITS as usize] |= 1 << (word as u64 % BITS);
            }
            taken += here;
        }
        taken
    }
}

/// A bitmap with `bits` bits, all 0.
fn zeroed_bitmap(bits: u64) -> Vec<u64> {
    vec![0; bits.div_ceil(BITS) as usize]
}

/// Sets the bits beyond the first `bits` in the last word.
fn set_bits_past_end(words: &mut [u64], bits: u64) {
    if let (Some(last), rest @ 1..) = (words.last_mut(), bits % BITS) {
        *last |= u64::MAX << rest;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_as_one_flag_a_block(
            blocks in 1_u64..10_000,
            steps in proptest::collection::vec((any::<u64>(), 1_u64..200), 1..400),
        ) {
            let mut map = RandomMap::new(blocks);
            let mut flags = vec![false; blocks as usize];
            for (at, count) in steps {
                let at = at % blocks;
                let after = (at..blocks).chain(0..blocks).find(|b| !flags[*b as usize]);
                prop_assert_eq!(map.next_free_block_wrapping(at), after);
                let Some(free) = after else { break };
                let run = flags[free as usize..].iter().take_while(|used| !**used).count() as u64;
                let taken = run.min(count);
                prop_assert_eq!(map.take_free_blocks(free, count), taken);
                flags[free as usize..(free + taken) as usize].fill(true);
            }
        }
    }

    #[test]
    fn a_full_map_has_nothing_free() {
        for blocks in [1, 63, 64, 65, 4095, 4096, 4097] {
            let mut map = RandomMap::new(blocks);
            assert_eq!(map.take_free_blocks(0, u64::MAX), blocks);
            assert_eq!(map.next_free_block_wrapping(blocks / 2), None);
            assert_eq!(map.take_free_blocks(0, 1), 0);
        }
        assert_eq!(RandomMap::new(0).next_free_block_wrapping(0), None);
    }
}
