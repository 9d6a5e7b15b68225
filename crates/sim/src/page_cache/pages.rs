//! Pages of files, and sets of them.

use std::collections::BTreeMap;

/// Bytes per page.
pub(crate) const PAGE: u64 = 4096;

/// Number of pages whose bits are in one word.
pub(super) const WORD: u64 = u64::BITS as u64;

/// Pages in the largest request, 1280 KiB (`BLK_DEF_MAX_SECTORS_CAP`, include/linux/blkdev.h).
pub(crate) const REQUEST: u64 = 320;

/// A set of pages: by file and word number, a bit for each of 64 adjacent pages. No word is 0.
pub(super) type Words = BTreeMap<(usize, u64), u64>;

/// Adjacent pages in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(super) file: usize,
    pub(super) first: u64,
    pub(super) count: u64,
}

/// Sets the pages' bits in a set. Returns how many were not set before.
pub(super) fn set_page_bits(words: &mut Words, pages: Pages) -> u64 {
    let mut count = 0;
    for (word, bits) in pages.words_and_bits() {
        let known = words.entry((pages.file, word)).or_default();
        let new = bits & !*known;
        *known |= bits;
        count += u64::from(new.count_ones());
    }
    count
}

/// Number of adjacent pages from a file's page on, all in a set or all outside of it, up to `most`.
pub(super) fn run_of_bits(
    words: &Words,
    (file, page): (usize, u64),
    most: u64,
    in_set: bool,
) -> u64 {
    let mut count = 0;
    while count < most {
        let (word, bit) = ((page + count) / WORD, (page + count) % WORD);
        let bits = words.get(&(file, word)).copied().unwrap_or(0);
        let wanted = if in_set { bits } else { !bits };
        let run = u64::from((!(wanted >> bit)).trailing_zeros()).min(WORD - bit);
        count += run;
        if run < WORD - bit {
            break;
        }
    }
    count.min(most)
}

/// Counts the pages whose bits are in a set.
pub(super) fn count_page_bits(words: &Words, pages: Pages) -> u64 {
    if words.is_empty() {
        return 0;
    }
    pages
        .words_and_bits()
        .filter_map(|(word, bits)| Some(words.get(&(pages.file, word))? & bits))
        .map(|set| u64::from(set.count_ones()))
        .sum()
}

impl Pages {
    /// An empty range of pages in a file.
    pub(crate) fn none_in_file(file: usize) -> Self {
        Self {
            file,
            first: 0,
            count: 0,
        }
    }

    /// All pages of a file.
    pub(crate) fn all_in_file(file: usize) -> Self {
        Self {
            file,
            first: 0,
            count: u64::MAX,
        }
    }

    /// Removes and returns the first pages of the range, at most `count`.
    pub(crate) fn take_first_pages(&mut self, count: u64) -> Self {
        let first = Self {
            count: self.count.min(count),
            ..*self
        };
        self.first += first.count;
        self.count -= first.count;
        first
    }

    /// Removes the range's pages before one of its pages, or before the page after its last.
    pub(super) fn skip_pages_before(&mut self, page: u64) {
        self.take_first_pages(page - self.first);
    }

    /// Number of the page after the range's last page.
    pub(crate) fn page_after_last(self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Whether both ranges have a page in common.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.file == other.file
            && self.first < other.page_after_last()
            && other.first < self.page_after_last()
    }

    /// The byte of the file where the range begins.
    pub(super) fn start_byte(self) -> u64 {
        self.first * PAGE
    }

    /// The pages that hold a part of a file, given in bytes.
    pub(crate) fn covering_bytes(file: usize, offset: u64, bytes: u64) -> Self {
        let first = offset / PAGE;
        Self {
            file,
            first,
            count: (offset + bytes).div_ceil(PAGE) - first,
        }
    }

    /// The words of a page set that hold these pages, each with the pages' bits.
    pub(super) fn words_and_bits(self) -> impl Iterator<Item = (u64, u64)> {
        let end = self.first + self.count;
        let mut at = self.first;
        std::iter::from_fn(move || {
            let (word, bit) = (at / WORD, at % WORD);
            let run = (end - at).min(WORD - bit);
            at += run;
            (run > 0).then(|| (word, (u64::MAX >> (WORD - run)) << bit))
        })
    }
}
