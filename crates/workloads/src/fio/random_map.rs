//! Tracks the blocks that a random job has done.

/// A set of blocks with a fast search for the next free block, even if nearly full.
#[derive(Clone, Debug)]
pub(super) struct RandomMap {
    /// A bit for each block that is used. Those beyond the last block are, too.
    used: Vec<u64>,
    /// A bit for each full word in `used`.
    full: Vec<u64>,
}

const BITS: u64 = u64::BITS as u64;

impl RandomMap {
    /// A map with `blocks` free blocks.
    pub(super) fn new(blocks: u64) -> Self {
        let used = zero_words(blocks);
        let full = zero_words(used.len() as u64);
        let mut map = Self { used, full };
        map.close_ends(blocks);
        map
    }

    /// Takes what the last words have beyond the last block for used.
    fn close_ends(&mut self, blocks: u64) {
        close_end(&mut self.used, blocks);
        let words = self.used.len() as u64;
        close_end(&mut self.full, words);
    }

    /// The first free block from `block` on, or else from the start.
    pub(super) fn free_from(&self, block: u64) -> Option<u64> {
        let (word, bit) = ((block / BITS) as usize, block % BITS);
        if let Some(used) = self.used.get(word) {
            let free = !used & (u64::MAX << bit);
            if free != 0 {
                return Some(word as u64 * BITS + u64::from(free.trailing_zeros()));
            }
        }
        let word = self
            .word_from(word as u64 + 1)
            .or_else(|| self.word_from(0))?;
        let free = !self.used[word as usize];
        Some(word * BITS + u64::from(free.trailing_zeros()))
    }

    /// The first word with a free block, starting at `word`.
    fn word_from(&self, word: u64) -> Option<u64> {
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

    /// Uses up to `count` blocks from `block` on, as far as they are free. Returns how many those are.
    pub(super) fn take(&mut self, block: u64, count: u64) -> u64 {
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

/// Words with so many bits, all 0.
fn zero_words(bits: u64) -> Vec<u64> {
    vec![0; bits.div_ceil(BITS) as usize]
}

/// Sets the bits of the last word beyond so many bits.
fn close_end(words: &mut [u64], bits: u64) {
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
                prop_assert_eq!(map.free_from(at), after);
                let Some(free) = after else { break };
                let run = flags[free as usize..].iter().take_while(|used| !**used).count() as u64;
                let taken = run.min(count);
                prop_assert_eq!(map.take(free, count), taken);
                flags[free as usize..(free + taken) as usize].fill(true);
            }
        }
    }

    #[test]
    fn a_full_map_has_nothing_free() {
        for blocks in [1, 63, 64, 65, 4095, 4096, 4097] {
            let mut map = RandomMap::new(blocks);
            assert_eq!(map.take(0, u64::MAX), blocks);
            assert_eq!(map.free_from(blocks / 2), None);
            assert_eq!(map.take(0, 1), 0);
        }
        assert_eq!(RandomMap::new(0).free_from(0), None);
    }
}
