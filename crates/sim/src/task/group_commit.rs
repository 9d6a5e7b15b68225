//! Group commit: one thread syncs a log on behalf of all waiting threads.
//!
//! The first thread that waits leads: it syncs all that has been appended until its sync begins. Others append and sleep meanwhile. At the
//! end of a sync, the threads whose bytes are on the media go on, and the thread that has waited longest after these leads the next sync.

use std::collections::VecDeque;

/// A log whose syncs are shared. Threads have numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupCommit {
    /// Length of the log in bytes, and up to where earlier syncs wrote the log.
    appended: u64,
    synced: u64,
    /// Length that the present sync writes.
    syncing_to: u64,
    /// The thread that syncs, or was woken to do so.
    leader: Option<Commit>,
    /// Threads that wait for a sync, in the order of their bytes in the log.
    waiting: VecDeque<Commit>,
}

/// A thread's bytes in the log.
#[derive(Clone, Copy, Debug)]
struct Commit {
    thread: usize,
    /// Length of the log with these bytes.
    length: u64,
}

/// Threads that go on after a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EndedSync {
    /// Threads whose bytes are on the media, beside the leader.
    pub(super) covered: Vec<usize>,
    /// The thread that syncs next.
    pub(super) next_leader: Option<usize>,
}

impl GroupCommit {
    /// Appends bytes that no thread waits for.
    pub(super) fn append_bytes(&mut self, bytes: u64) {
        self.appended += bytes;
    }

    /// Appends a thread's bytes. Returns whether the thread leads the next sync; otherwise the thread waits for another one's.
    pub(super) fn append_and_lead(&mut self, thread: usize, bytes: u64) -> bool {
        self.append_bytes(bytes);
        let commit = Commit {
            thread,
            length: self.appended,
        };
        if self.leader.is_some() {
            self.waiting.push_back(commit);
            return false;
        }
        self.leader = Some(commit);
        true
    }

    /// Whether a thread syncs the log, or was woken to do so.
    pub(super) fn is_led_by(&self, thread: usize) -> bool {
        self.leader.is_some_and(|leader| leader.thread == thread)
    }

    /// Whether anything was appended since the last sync.
    pub(super) fn has_unsynced_bytes(&self) -> bool {
        self.appended > self.synced
    }

    /// Begins a sync of all that was appended.
    pub(super) fn begin_sync(&mut self) {
        self.syncing_to = self.appended;
    }

    /// Begins a sync that ends with the leader's bytes, whoever waits.
    pub(super) fn begin_sync_of_leader_alone(&mut self) {
        self.syncing_to = self.leader.map_or(self.appended, |leader| leader.length);
    }

    /// Lengths of the log between which the present sync writes.
    pub(super) fn range_of_sync(&self) -> (u64, u64) {
        (self.synced, self.syncing_to)
    }

    /// Ends the present sync.
    pub(super) fn end_sync(&mut self) -> EndedSync {
        self.synced = self.syncing_to;
        let on_media = (self.waiting.iter()).take_while(|commit| commit.length <= self.synced);
        let count = on_media.count();
        let covered = (self.waiting.drain(..count))
            .map(|commit| commit.thread)
            .collect();
        self.leader = self.waiting.pop_front();
        EndedSync {
            covered,
            next_leader: self.leader.map(|leader| leader.thread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads 0 to 2 append 10 bytes each, the last one after the sync of the first one has begun.
    fn log_with_one_late_thread() -> GroupCommit {
        let mut log = GroupCommit::default();
        assert!(log.append_and_lead(0, 10));
        assert!(!log.append_and_lead(1, 10));
        log.begin_sync();
        assert!(!log.append_and_lead(2, 10));
        log
    }

    #[test]
    fn a_sync_covers_what_was_appended_before_its_begin() {
        let mut log = log_with_one_late_thread();
        assert_eq!(log.range_of_sync(), (0, 20));
        let ended = EndedSync {
            covered: vec![1],
            next_leader: Some(2),
        };
        assert_eq!(log.end_sync(), ended);
        assert!(log.is_led_by(2) && log.has_unsynced_bytes());
        log.begin_sync();
        assert_eq!(log.range_of_sync(), (20, 30));
        assert_eq!(log.end_sync(), EndedSync::default());
        assert!(log.append_and_lead(1, 10));
    }

    #[test]
    fn a_sync_of_the_leader_alone_covers_nobody_else() {
        let mut log = log_with_one_late_thread();
        log.begin_sync_of_leader_alone();
        let ended = EndedSync {
            covered: Vec::new(),
            next_leader: Some(1),
        };
        assert_eq!(log.end_sync(), ended);
        log.begin_sync_of_leader_alone();
        assert_eq!(log.range_of_sync(), (10, 20));
    }

    #[test]
    fn bytes_that_nobody_waits_for_belong_to_the_next_sync() {
        let mut log = GroupCommit::default();
        log.append_bytes(7);
        assert!(log.has_unsynced_bytes());
        log.begin_sync();
        log.end_sync();
        assert!(!log.has_unsynced_bytes());
    }
}
