//! Syncs that tasks of given steps share, as workers of a server share those of its log (`task/server/log.rs`).
//!
//! The task that comes first takes the steps of its sync, for all that has been appended by then. Others append and sleep meanwhile. At
//! the end the task wakes those whose data are on the media, and of the others the one that has waited longest, which syncs next.

use std::collections::VecDeque;

/// Size of a sector in bytes.
const SECTOR: u64 = 512;

/// A log whose syncs are shared.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedLog {
    /// Bytes appended so far, those on the media, and those that will be at the end of the present sync.
    appended: u64,
    synced: u64,
    syncing_to: u64,
    /// The thread that syncs, or was woken to do so.
    leader: Option<usize>,
    /// Threads that wait, by the log's length with their data.
    waiting: VecDeque<WaitingThread>,
}

/// A thread that waits until its data are on the media.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingThread {
    pub(super) thread: usize,
    length: u64,
    /// Index of the step that ends the thread's own sync.
    pub(super) end: usize,
}

impl SharedLog {
    /// Whether a thread begins a sync, for itself and for all that wait. Otherwise it waits for another one's.
    pub(super) fn append_and_lead(&mut self, thread: usize, bytes: u64, end: usize) -> bool {
        if self.leader != Some(thread) {
            self.appended += bytes;
            if self.leader.is_some() {
                self.waiting.push_back(WaitingThread {
                    thread,
                    length: self.appended,
                    end,
                });
                return false;
            }
            self.leader = Some(thread);
        }
        self.syncing_to = self.appended;
        true
    }

    /// Whole sectors that the present sync writes beside the leader's own bytes.
    pub(super) fn bytes_of_others(&self, own: u64) -> u64 {
        let others = (self.syncing_to - self.synced).saturating_sub(own);
        others.next_multiple_of(SECTOR)
    }

    /// Whether a thread syncs the log.
    pub(super) fn is_led_by(&self, thread: usize) -> bool {
        self.leader == Some(thread)
    }

    /// Ends the present sync. Returns the threads whose data are on the media with that, and the thread that syncs next.
    pub(super) fn end_sync(&mut self) -> (Vec<WaitingThread>, Option<usize>) {
        self.synced = self.syncing_to;
        let covered = (self.waiting.iter()).take_while(|waiting| waiting.length <= self.synced);
        let count = covered.count();
        let covered: Vec<WaitingThread> = self.waiting.drain(..count).collect();
        self.leader = self.waiting.pop_front().map(|next| next.thread);
        (covered, self.leader)
    }
}
