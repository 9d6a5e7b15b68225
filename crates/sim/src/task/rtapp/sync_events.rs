//! Tasks of given steps sync logs for each other.

use crate::core::basics::CpuId;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::task::rtapp::shared_log::WaitingThread;
use crate::task::rtapp::state::ThreadId;

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
        let shared = &mut threads.logs[log];
        if !shared.append_and_lead(id, bytes, end) {
            threads.mark_waiting_for_sync(id, log);
            return false;
        }
        threads.all[id].bytes_of_others = shared.bytes_of_others(bytes);
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
        let (covered, next) = threads.logs[log].end_sync();
        for WaitingThread { thread, end, .. } in &covered {
            threads.all[*thread].skip_to_end_of_step(*end);
        }
        if let Some(next) = next {
            // The thread looks at its step again when it runs: others may append until then.
            threads.all[next].done = false;
        }
        let synced = covered.into_iter().map(|waiting| waiting.thread);
        for thread in synced.chain(next) {
            self.workload.threads.mark_unblocked(thread);
            self.wake_other_thread(cpu, false, thread);
        }
    }
}
