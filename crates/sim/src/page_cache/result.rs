//! What the page cache did in a run.

use serde::Serialize;

use crate::page_cache::state::{PAGE, Totals};

/// What the page cache did.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageCacheRun {
    /// Bytes of pages that became dirty; a page that is dirty already does not count again.
    pub dirtied_bytes: u64,
    /// Bytes of pages that were written back. What was dirtied has been written back or is left.
    pub written_back_bytes: u64,
    /// Bytes of pages that were dirty or on their way at the end of the run.
    pub left_bytes: u64,
    /// Seconds for which writers were held back because there were too many dirty pages, summed over them.
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
