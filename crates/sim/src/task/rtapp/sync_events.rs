//! Tasks of given steps sync logs for each other (`task/group_commit.rs`).

use crate::core::basics::CpuId;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::task::group_commit::EndedSync;
use crate::task::rtapp::state::ThreadId;

/// Size of a sector in bytes.
const SECTOR: u64 = 512;

impl<O: Observer> Engine<'_, O> {
    /// Lets a thread append bytes to a log, and sync it or wait for another one's sync; `end` is the step that ends its own sync. Returns
    /// false if the thread waits.
    pub(super) fn join_sync(
        &mut self,
        id: ThreadId,
        (log, bytes): (usize, u64),
        end: usize,
    ) -> bool {
        let threads = &mut self.workload.threads;
        let commits = &mut threads.logs[log];
        // A thread that was woken to lead has appended its bytes before.
        let leads = commits.is_led_by(id) || commits.append_and_lead(id, bytes);
        if !leads {
            threads.mark_waiting_for_sync(id, log, end);
            return false;
        }
        commits.begin_sync();
        let (synced, syncing_to) = commits.range_of_sync();
        let others = (syncing_to - synced).saturating_sub(bytes);
        threads.all[id].bytes_of_others = others.next_multiple_of(SECTOR);
        true
    }

    /// Ends a thread's sync: wakes the threads whose data are on the media, and the thread that syncs next.
    pub(super) fn end_sync_of_thread(&mut self, cpu: CpuId, id: ThreadId, log: usize) {
        let threads = &mut self.workload.threads;
        if !threads.logs[log].is_led_by(id) {
            return;
        }
        // A sync without a write leaves bytes that no later write has.
        threads.all[id].bytes_of_others = 0;
        let EndedSync {
            covered,
            next_leader,
        } = threads.logs[log].end_sync();
        for thread in &covered {
            threads.all[*thread].skip_to_end_of_awaited_sync();
        }
        if let Some(next) = next_leader {
            // The thread looks at its step again when it runs: others may append until then.
            threads.all[next].done = false;
        }
        for thread in covered.into_iter().chain(next_leader) {
            self.workload.threads.mark_unblocked(thread);
            self.wake_other_thread(cpu, false, thread);
        }
    }
}
