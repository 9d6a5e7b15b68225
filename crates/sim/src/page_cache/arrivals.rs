//! Pages on their way from the drives, and the marks and folios of the read-ahead.

use std::collections::BTreeMap;

use crate::page_cache::pages::{Pages, WORD, Words};
use crate::page_cache::read_ahead::Mark;

/// Pages that are being read, and marks that the read-ahead has left.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Requests that read pages, by number. Their pages count as cached.
    pub(super) arriving: BTreeMap<u64, Pages>,
    /// Marked folios by file and first page, with their number of pages.
    pub(super) marks: BTreeMap<(usize, u64), u64>,
    /// Pages of large folios but for the first of each.
    pub(super) tails: Words,
}

impl Arrivals {
    /// Drops the marks in a word of pages, and returns the bits of its pages that are being read.
    pub(super) fn drop_marks_and_return_arriving(&mut self, (file, word): (usize, u64)) -> u64 {
        let (first, end) = (word * WORD, (word + 1) * WORD);
        let marked = self.marks.range((file, first)..(file, end));
        let gone: Vec<(usize, u64)> = marked.map(|(place, _)| *place).collect();
        for place in &gone {
            self.marks.remove(place);
        }
        self.tails.remove(&(file, word));
        let mut bits = 0;
        for pages in self.arriving.values().filter(|pages| pages.file == file) {
            let from = pages.first.max(first);
            let to = pages.page_after_last().min(end);
            if from < to {
                bits |= (u64::MAX >> (WORD - (to - from))) << (from - first);
            }
        }
        bits
    }

    /// The first request that reads one of the pages, with the first of its pages among them.
    pub(super) fn first_arriving(&self, pages: Pages) -> Option<(u64, u64)> {
        let overlapping = self.arriving.iter().filter(|(_, arriving)| {
            arriving.file == pages.file
                && arriving.first < pages.page_after_last()
                && pages.first < arriving.page_after_last()
        });
        overlapping
            .map(|(number, arriving)| (arriving.first.max(pages.first), *number))
            .min()
    }

    /// The first marked folio that has one of the pages.
    pub(super) fn first_mark(&self, pages: Pages) -> Option<Mark> {
        let before = (self.marks)
            .range(..=(pages.file, pages.first))
            .next_back()
            .filter(|((file, first), count)| *file == pages.file && first + *count > pages.first);
        let from = (pages.file, pages.first);
        let within = || {
            self.marks
                .range(from..(pages.file, pages.page_after_last()))
                .next()
        };
        before.or_else(within).map(|((_, first), count)| Mark {
            first: *first,
            count: *count,
        })
    }

    /// Ends the request with this number: its pages are there.
    pub(super) fn end_arrival(&mut self, number: u64) {
        self.arriving.remove(&number);
    }
}
