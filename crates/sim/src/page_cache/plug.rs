//! The plug of a task that writes pages back: the drives get its requests together.
//!
//! As `blk_add_rq_to_plug()` (`block/blk-mq.c`, Linux 6.12). The plug is emptied when it is full, before the task sleeps, and when
//! the write-back ends.

use crate::block::request::RequestKind;
use crate::core::basics::{CpuId, Direction, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::page_cache::pages::{PAGE, Pages};
use wakepath_policies::psd::LeaseTrigger;

/// Most requests in a plug, and in one whose requests go to several drives (`blk_plug_max_rq_count()`).
const MOST_REQUESTS: usize = 32;
const MOST_REQUESTS_TO_DRIVES: usize = 64;

/// A last request of this size empties the plug before the next one comes (`BLK_PLUG_FLUSH_SIZE`).
const LARGE_BYTES: u64 = 128 << 10;

/// A write-back request that waits in a plug.
#[derive(Clone, Copy, Debug)]
pub(super) struct PluggedWrite {
    /// Page cache number of the request, and its pages.
    number: u64,
    pages: Pages,
    /// Time in ns when the request's submission began.
    begun: u64,
}

/// Whether a plug with these requests is emptied before another request comes.
fn is_full(plug: &[PluggedWrite], drives: usize) -> bool {
    let most = if drives > 1 {
        MOST_REQUESTS_TO_DRIVES
    } else {
        MOST_REQUESTS
    };
    plug.len() >= most || (plug.last()).is_some_and(|last| last.pages.count * PAGE >= LARGE_BYTES)
}

impl<O: Observer> Engine<'_, O> {
    /// Puts the request that writes these pages back into the task's plug. A sync on XFS has no plug.
    pub(super) fn plug_write_back(&mut self, cpu: CpuId, task: TaskId, pages: Pages) {
        let now = self.context.now();
        let drives = self.drives.len();
        let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache) else {
            return;
        };
        cache.pages.in_flight += 1;
        let is_flusher = task == cache.flusher;
        // The request begins where the waiting task's latency is attributed up to.
        let begun = if is_flusher {
            now
        } else {
            caller.request.attributed_until()
        };
        let has_plug = is_flusher || cache.pages.setup.plugs_syncs();
        let before = if is_full(&caller.plug, drives) {
            std::mem::take(&mut caller.plug)
        } else {
            Vec::new()
        };
        caller.plug.push(PluggedWrite {
            number: caller.taken,
            pages,
            begun,
        });
        self.submit_plugged_writes(cpu, task, before);
        if !has_plug {
            self.empty_plug(cpu, task);
        }
    }

    /// Gives all requests of the task's plug to the drives.
    pub(super) fn empty_plug(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(caller) = &mut self.tasks[task].caller {
            let plug = std::mem::take(&mut caller.plug);
            self.submit_plugged_writes(cpu, task, plug);
        }
    }

    fn submit_plugged_writes(&mut self, cpu: CpuId, task: TaskId, writes: Vec<PluggedWrite>) {
        for write in writes {
            self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
            let PluggedWrite {
                number,
                pages,
                begun,
            } = write;
            let id =
                self.create_page_request((cpu, task), (number, pages), Direction::Write, begun);
            if let Some(id) = id {
                self.give_page_request_to_drives(id, RequestKind::Plain, pages);
            }
        }
    }
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
        assert!(!is_full(&[], 1));
        assert!(!is_full(&plug_with(31, 1), 1));
        assert!(is_full(&plug_with(32, 1), 1));
        assert!(!is_full(&plug_with(63, 1), 2));
        assert!(is_full(&plug_with(64, 1), 2));
        assert!(!is_full(&plug_with(1, 31), 1));
        assert!(is_full(&plug_with(1, 32), 1));
    }
}
