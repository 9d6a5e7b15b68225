//! A run's figures about the page cache.

use serde::Serialize;

use crate::page_cache::state::{PAGE, Totals};

/// A run's figures about the page cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageCacheRun {
    /// Bytes in pages that became dirty; a page dirty already does not count again.
    pub dirtied_bytes: u64,
    /// Bytes in pages written back. Every dirtied page has been written back or is left.
    pub written_back_bytes: u64,
    /// Bytes in pages dirty or in flight at the run's end.
    pub left_bytes: u64,
    /// Seconds with writers held back by too many dirty pages, summed over writers.
    pub held_back_seconds: f64,
}

impl PageCacheRun {
    pub(crate) fn new(totals: &Totals) -> Self {
        Self {
            dirtied_bytes: totals.dirtied * PAGE,
            written_back_bytes: totals.written * PAGE,
            left_bytes: totals.left * PAGE,
            held_back_seconds: totals.paused as f64 / 1e9,
        }
    }
}
