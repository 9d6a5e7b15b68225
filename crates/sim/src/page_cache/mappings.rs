//! Mappings of files: what a task's page table has, and how far its read and its page fault are.

use std::collections::BTreeMap;

use wakepath_workloads::fio::ReadHint;

use crate::core::basics::TaskId;
use crate::page_cache::pages::{Pages, Words, count_page_bits, run_of_bits, set_page_bits};

/// How a task reads a file that it has mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedReads {
    /// What the kernel was told about the mapping (`madvise()`).
    pub(super) advice: ReadHint,
    /// Surplus of faults that had to read (`mmap_miss`).
    pub(super) misses: u64,
    /// Whether a page fault is in progress, and whether it has begun to read.
    pub(super) faulting: bool,
    pub(super) tried: bool,
    /// Whether the fault has waited for a page, and is taken again.
    pub(super) repeats: bool,
}

/// Pages that tasks have mapped.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    by_task: BTreeMap<TaskId, Mapping>,
}

/// A task's mappings of its file.
#[derive(Debug, Default)]
struct Mapping {
    /// Pages that the present mapping's page table has.
    present: Words,
    /// Pages of earlier mappings, which fio 3.33 leaves in place when it closes the file.
    earlier: Words,
}

impl MappedReads {
    /// Reads from a new mapping under this advice.
    pub(super) fn new(advice: ReadHint) -> Self {
        Self {
            advice,
            misses: 0,
            faulting: false,
            tried: false,
            repeats: false,
        }
    }

    /// Counts pages found in the cache.
    pub(super) fn count_hits(&mut self, pages: u64) {
        self.misses = self.misses.saturating_sub(pages);
    }
}

impl Mappings {
    /// Maps a task's file anew; the pages of earlier mappings stay in use.
    pub(super) fn map_anew(&mut self, task: TaskId) {
        let mapping = self.by_task.entry(task).or_default();
        for (place, bits) in std::mem::take(&mut mapping.present) {
            *mapping.earlier.entry(place).or_default() |= bits;
        }
    }

    /// Ends all mappings of a task.
    pub(super) fn end_mappings(&mut self, task: TaskId) {
        self.by_task.remove(&task);
    }

    /// Bits of the pages in a word that some task has mapped.
    pub(super) fn pages_in_use(&self, place: (usize, u64)) -> u64 {
        let maps = (self.by_task.values()).flat_map(|mapping| [&mapping.present, &mapping.earlier]);
        maps.filter_map(|words| words.get(&place))
            .fold(0, |all, bits| all | bits)
    }

    /// Takes pages of a word, which leave the memory, out of all page tables.
    pub(super) fn unmap(&mut self, place: (usize, u64), gone: u64) {
        for mapping in self.by_task.values_mut() {
            for words in [&mut mapping.present, &mut mapping.earlier] {
                if let Some(bits) = words.get_mut(&place) {
                    *bits &= !gone;
                    if *bits == 0 {
                        words.remove(&place);
                    }
                }
            }
        }
    }

    /// Whether a task's page table has any of these pages.
    pub(super) fn has_any_mapped(&self, task: TaskId, pages: Pages) -> bool {
        let mapping = self.by_task.get(&task);
        mapping.is_some_and(|mapping| count_page_bits(&mapping.present, pages) > 0)
    }

    /// Number of adjacent pages from the first on that a task's page table has.
    pub(super) fn count_mapped_from_first(&self, task: TaskId, pages: Pages) -> u64 {
        self.by_task.get(&task).map_or(0, |mapping| {
            run_of_bits(
                &mapping.present,
                (pages.file, pages.first),
                pages.count,
                true,
            )
        })
    }

    /// Enters pages into a task's page table. Returns how many were not there.
    pub(super) fn enter(&mut self, task: TaskId, pages: Pages) -> u64 {
        set_page_bits(&mut self.by_task.entry(task).or_default().present, pages)
    }
}
