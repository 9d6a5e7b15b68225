//! The plug of a task that writes pages back: the drives get its requests together.
//!
//! As `blk_add_rq_to_plug()` (`block/blk-mq.c`, Linux 6.12). The plug is emptied when it is full, before the task sleeps, and when
//! the write-back ends.

use crate::page_cache::pages::{PAGE, Pages};

/// Most requests in a plug, and in one whose requests go to several drives (`blk_plug_max_rq_count()`).
const MOST_REQUESTS: usize = 32;
const MOST_REQUESTS_TO_DRIVES: usize = 64;

/// A last request of this size empties the plug before the next one comes (`BLK_PLUG_FLUSH_SIZE`).
const LARGE_BYTES: u64 = 128 << 10;

/// A write-back request that waits in a plug.
#[derive(Clone, Copy, Debug)]
pub(super) struct PluggedWrite {
    /// Page cache number of the request, and its pages.
    pub(super) number: u64,
    pub(super) pages: Pages,
    /// Time in ns when the request's submission began.
    pub(super) begun: u64,
}

/// Whether a plug with these requests is emptied before another request comes.
pub(super) fn is_plug_full(plug: &[PluggedWrite], drives: usize) -> bool {
    let most = if drives > 1 {
        MOST_REQUESTS_TO_DRIVES
    } else {
        MOST_REQUESTS
    };
    plug.len() >= most || (plug.last()).is_some_and(|last| last.pages.count * PAGE >= LARGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plug_with(requests: usize, last_pages: u64) -> Vec<PluggedWrite> {
        let write_of_pages = |count| PluggedWrite {
            number: 1,
            pages: Pages {
                file: 0,
                first: 0,
                count,
            },
            begun: 0,
        };
        let mut plug = vec![write_of_pages(1); requests - 1];
        plug.push(write_of_pages(last_pages));
        plug
    }

    #[test]
    fn a_plug_is_full_with_32_requests_or_behind_a_large_one() {
        assert!(!is_plug_full(&[], 1));
        assert!(!is_plug_full(&plug_with(31, 1), 1));
        assert!(is_plug_full(&plug_with(32, 1), 1));
        assert!(!is_plug_full(&plug_with(63, 1), 2));
        assert!(is_plug_full(&plug_with(64, 1), 2));
        assert!(!is_plug_full(&plug_with(1, 31), 1));
        assert!(is_plug_full(&plug_with(1, 32), 1));
    }
}
