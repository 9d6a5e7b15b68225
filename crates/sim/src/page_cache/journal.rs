//! The file system's journal: which syncs wait for a commit, and who shares it.
//!
//! As ext4 with its journal on the same drive (`ext4_sync_file()` in `fs/ext4/fsync.c`, `fs/jbd2/commit.c`, Linux 6.12). A write
//! changes the file's timestamps if a tick has passed since the last change: the time that the kernel gives files is that of the last
//! tick. The changed inode belongs to the running transaction. `fsync` waits until that transaction is committed; `fdatasync` does not
//! care for timestamps. All syncs of one transaction share its commit. The commit's own flush comes after the data of these syncs, so
//! that they need no other one, unless the commit had already begun to flush when the sync looked.

use wakepath_hardware::Machine;

use crate::core::basics::{Cycles, TaskId};
use crate::page_cache::pages::PAGE;

/// Bytes that a commit writes before its commit block: a descriptor and the block of the inode table, which are adjacent.
pub(super) const BLOCKS_BYTES: u64 = 2 * PAGE;

/// Pages of the journal, in which commits follow each other (`mke2fs` gives a file system of 1 GiB 16 MiB).
const JOURNAL_PAGES: u64 = 4096;

/// Work and sizes of a file system's journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalSetup {
    /// Time in ns between two times that files can have.
    tick: u64,
    /// Work in cycles of the journal's thread for a commit, beside its requests.
    commit: Cycles,
    /// Work in cycles of a write that changes timestamps.
    inode: Cycles,
}

impl JournalSetup {
    /// Compiles the journal of a machine's file system, if any.
    pub(crate) fn for_machine(machine: &Machine) -> Option<Self> {
        let figures = machine.file_system.as_ref()?;
        Some(Self {
            tick: machine.tick_rate().period().0,
            commit: figures.commit_kcycles.kilocycles_to_cycles(),
            inode: figures.inode_kcycles.kilocycles_to_cycles(),
        })
    }

    /// Work in cycles of the journal's thread before a commit's first request, and after its last one.
    pub(super) fn commit_work(&self) -> [Cycles; 2] {
        [self.commit / 2, self.commit - self.commit / 2]
    }
}

/// What the journal's thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitStage {
    /// Begin the commit that a sync has asked for, or sleep.
    Rest,
    /// Submit the blocks of the running transaction, which takes no more changes.
    Blocks,
    /// Sleep until they are written.
    LeaveForBlocks,
    /// Prepare the commit block.
    Record,
    /// Submit the flush before the commit block, or the block itself to a drive that needs no flush.
    SubmitRecord,
    /// Sleep until the commit block is on the media.
    LeaveForRecord,
    /// Clean up.
    CleanUp,
    /// Wake all that wait for the transaction.
    Wake,
}

/// When a file's timestamps last changed.
#[derive(Clone, Copy, Debug, Default)]
struct Inode {
    /// Number of the tick whose time the file has; `None` before its first write.
    tick: Option<u64>,
    /// The transaction that has the change; 0: none.
    transaction: u64,
}

/// What a sync of a file needs beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyncNeeds {
    /// The transaction that has to be committed, if any.
    pub(super) transaction: Option<u64>,
    /// Whether the drive has to be flushed after that.
    pub(super) flush: bool,
}

/// A file system's journal in a run.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(super) setup: JournalSetup,
    /// The journal's thread (`jbd2`), and the kernel's worker that submits the commit block after the flush (`kblockd`).
    pub(super) thread: TaskId,
    pub(super) worker: TaskId,
    pub(super) stage: CommitStage,
    /// The transaction that takes changes, the last one whose commit was asked for, and the last committed one.
    running: u64,
    requested: u64,
    committed: u64,
    /// Page cache numbers that tasks wait for until transactions are committed, with the transaction.
    awaited: Vec<(u64, u64)>,
    inodes: Vec<Inode>,
    /// Page cache number of the thread's or the worker's request in flight, if any.
    pub(super) in_flight: Option<u64>,
    /// Where the next blocks go in the journal, in pages.
    next_page: u64,
}

impl Journal {
    pub(super) fn new(setup: JournalSetup, files: usize, thread: TaskId, worker: TaskId) -> Self {
        Self {
            setup,
            thread,
            worker,
            stage: CommitStage::Rest,
            running: 1,
            requested: 0,
            committed: 0,
            awaited: Vec::new(),
            inodes: vec![Inode::default(); files],
            in_flight: None,
            next_page: 0,
        }
    }

    /// A write to a file begins. Returns the work in cycles to change its timestamps.
    pub(super) fn change_timestamps(&mut self, file: usize, now: u64) -> Cycles {
        let tick = Some(now / self.setup.tick);
        let running = self.running;
        let Some(inode) = self.inodes.get_mut(file) else {
            return 0;
        };
        if inode.tick == tick {
            return 0;
        }
        (inode.tick, inode.transaction) = (tick, running);
        self.setup.inode
    }

    /// What a sync needs once the file's data are written; `data_only`: an fdatasync.
    pub(super) fn needs_of_sync(&self, file: usize, data_only: bool) -> SyncNeeds {
        let changed = self.inodes.get(file).map_or(0, |inode| inode.transaction);
        if data_only || changed <= self.committed {
            return SyncNeeds {
                transaction: None,
                flush: true,
            };
        }
        let flushes = matches!(
            self.stage,
            CommitStage::SubmitRecord
                | CommitStage::LeaveForRecord
                | CommitStage::CleanUp
                | CommitStage::Wake
        );
        SyncNeeds {
            transaction: Some(changed),
            flush: changed < self.running && flushes,
        }
    }

    /// Number to wait for until a transaction is committed; `fresh` if nobody waits yet.
    pub(super) fn number_to_await(&mut self, transaction: u64, fresh: u64) -> u64 {
        let known = self.awaited.iter().find(|(other, _)| *other == transaction);
        if let Some((_, number)) = known {
            return *number;
        }
        self.awaited.push((transaction, fresh));
        fresh
    }

    /// Whether tasks wait for a commit by this number.
    pub(super) fn is_commit(&self, number: u64) -> bool {
        self.awaited.iter().any(|(_, awaited)| *awaited == number)
    }

    /// Asks for the commit of a transaction. Returns whether the thread has to be woken for that.
    pub(super) fn request_commit(&mut self, transaction: u64) -> bool {
        let is_new = transaction > self.requested;
        self.requested = self.requested.max(transaction);
        is_new && self.stage == CommitStage::Rest
    }

    /// Closes the running transaction if its commit was asked for. Returns whether it was.
    pub(super) fn begin_requested_commit(&mut self) -> bool {
        let begins = self.requested >= self.running;
        if begins {
            self.running += 1;
        }
        begins
    }

    /// Ends the commit in progress. Returns the number that tasks wait for, if any do.
    pub(super) fn end_commit(&mut self) -> Option<u64> {
        self.committed = self.running - 1;
        let committed = self.committed;
        let mut ended = self
            .awaited
            .extract_if(.., |(transaction, _)| *transaction <= committed);
        ended.next().map(|(_, number)| number)
    }

    /// Place in the journal of the next `bytes`, in pages.
    pub(super) fn take_place(&mut self, bytes: u64) -> u64 {
        let at = self.next_page;
        self.next_page = (at + bytes / PAGE) % JOURNAL_PAGES;
        at
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const TICK: u64 = 4_000_000;

    fn journal() -> Journal {
        let setup = JournalSetup {
            tick: TICK,
            commit: 10_001,
            inode: 7,
        };
        Journal::new(setup, 2, 0, 1)
    }

    const FLUSH_ONLY: SyncNeeds = SyncNeeds {
        transaction: None,
        flush: true,
    };

    #[test]
    fn only_the_first_write_after_a_tick_changes_the_inode() {
        let mut journal = journal();
        assert_eq!(journal.needs_of_sync(0, false), FLUSH_ONLY);
        assert_eq!(journal.change_timestamps(0, 0), 7);
        assert_eq!(journal.change_timestamps(0, TICK - 1), 0);
        assert_eq!(journal.change_timestamps(1, TICK - 1), 7);
        assert_eq!(journal.change_timestamps(0, TICK), 7);
        assert_eq!(journal.setup.commit_work(), [5000, 5001]);
    }

    #[test]
    fn syncs_of_one_transaction_share_a_commit_and_later_changes_take_the_next() {
        let mut journal = journal();
        journal.change_timestamps(0, 0);
        let first = journal.needs_of_sync(0, false);
        assert_eq!((first.transaction, first.flush), (Some(1), false));
        assert_eq!(journal.needs_of_sync(0, true), FLUSH_ONLY);
        assert!(journal.request_commit(1));
        assert!(!journal.request_commit(1));
        assert!(journal.begin_requested_commit());
        journal.stage = CommitStage::LeaveForBlocks;
        // Another file's change comes after the transaction was closed.
        journal.change_timestamps(1, 1);
        assert_eq!(journal.needs_of_sync(0, false), first);
        assert_eq!(journal.needs_of_sync(1, false).transaction, Some(2));
        assert!(!journal.request_commit(2));
        let numbers = [(1, 10), (1, 11), (2, 12)];
        let awaited = numbers.map(|(one, fresh)| journal.number_to_await(one, fresh));
        assert_eq!(awaited, [10, 10, 12]);
        // Data that are written during the commit's flush are not part of it.
        journal.stage = CommitStage::LeaveForRecord;
        assert!(journal.needs_of_sync(0, false).flush);
        assert!(!journal.needs_of_sync(1, false).flush);
        assert_eq!(journal.end_commit(), Some(10));
        assert_eq!(journal.needs_of_sync(0, false), FLUSH_ONLY);
        assert!(journal.is_commit(12) && !journal.is_commit(10));
        assert!(journal.begin_requested_commit());
        assert_eq!(journal.end_commit(), Some(12));
        assert!(!journal.begin_requested_commit());
    }

    #[test]
    fn blocks_of_the_journal_follow_each_other_and_begin_again_at_its_end() {
        let mut journal = journal();
        assert_eq!(
            [8192, 4096, 8192].map(|bytes| journal.take_place(bytes)),
            [0, 2, 3]
        );
        journal.next_page = JOURNAL_PAGES - 1;
        journal.take_place(4096);
        assert_eq!(journal.next_page, 0);
    }
}
