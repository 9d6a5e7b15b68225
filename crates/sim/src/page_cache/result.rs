//! A run's figures about the page cache.

use serde::Serialize;

use crate::page_cache::pages::PAGE;
use crate::page_cache::state::Totals;

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
    /// Bytes read from the drives, ahead or as asked for, by jobs that depend on which pages are cached.
    #[serde(skip_serializing_if = "is_zero")]
    pub read_bytes: u64,
    /// Requests that read those bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub read_requests: u64,
    /// Bytes in pages that such jobs copied from the cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub copied_bytes: u64,
}

/// Whether a figure is left out, since nothing of its kind happened.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(figure: &u64) -> bool {
    *figure == 0
}

impl PageCacheRun {
    pub(crate) fn new(totals: &Totals) -> Self {
        Self {
            dirtied_bytes: totals.dirtied * PAGE,
            written_back_bytes: totals.written * PAGE,
            left_bytes: totals.left * PAGE,
            held_back_seconds: totals.paused as f64 / 1e9,
            read_bytes: totals.read * PAGE,
            read_requests: totals.read_requests,
            copied_bytes: totals.copied * PAGE,
        }
    }
}
