//! The file system's journal: which syncs wait for a commit, and who shares the commit.
//!
//! A write changes the file's timestamps if a tick has passed since the last change: the kernel gives files the time of the last tick.
//! The changed inode belongs to the running transaction. `fsync` waits until this transaction is committed; `fdatasync` does not care
//! for timestamps. All syncs of one transaction share its commit. The journal is on the drive of the files.
//!
//! - ext4 (`ext4_sync_file()` in `fs/ext4/fsync.c`, `fs/jbd2/commit.c`, Linux 6.12): a thread commits one transaction at a time. The
//!   commit flushes the drive after the data of its syncs, which then need no other flush. A sync whose data were written after the begin
//!   of the flush needs another flush. While a commit writes the block of the inode table, no inode in the block changes. A write that
//!   has to change timestamps waits meanwhile (`do_get_write_access()` in `fs/jbd2/transaction.c`). The files' inodes share a block.
//! - XFS (`xfs_file_fsync()` in `fs/xfs/xfs_file.c`, `fs/xfs/xfs_log_cil.c`): a worker moves the running transaction into a buffer of
//!   the log. [`xfs_log`](crate::page_cache::xfs_log) follows the buffer to the drive.

use std::collections::VecDeque;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::FileSystemKind;

use crate::core::basics::{CpuId, Cycles, TaskId};
use crate::page_cache::pages::PAGE;
use crate::page_cache::xfs_log::XfsLog;

/// Bytes that ext4 writes before a commit block: the adjacent blocks of a descriptor and of the inode table.
pub(super) const BLOCKS_BYTES: u64 = 2 * PAGE;

/// Length of the journal in pages (`mke2fs` gives a file system of 1 GiB a journal of 16 MiB).
const JOURNAL_PAGES: u64 = 4096;

/// Work and sizes of a file system's journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalSetup {
    kind: FileSystemKind,
    /// Period in ns of the kernel's tick, whose time files get as timestamp.
    tick: u64,
    /// Work in cycles for a commit, without the submission of requests.
    commit: Cycles,
    /// Work in cycles of a write that changes timestamps.
    inode: Cycles,
    /// Work in cycles of each write, beyond that of a write to the raw drive.
    write: Cycles,
}

impl JournalSetup {
    /// Compiles the journal of a machine's file system, if any.
    pub(crate) fn for_machine(machine: &Machine) -> Option<Self> {
        let figures = machine.file_system.as_ref()?;
        Some(Self {
            kind: figures.kind,
            tick: machine.tick_rate().period().0,
            commit: figures.commit_kcycles.kilocycles_to_cycles(),
            inode: figures.inode_kcycles.kilocycles_to_cycles(),
            write: figures.write_kcycles.kilocycles_to_cycles(),
        })
    }

    pub(super) fn is_on_xfs(&self) -> bool {
        self.kind == FileSystemKind::Xfs
    }

    /// Work in cycles before a commit's first request, and after its last request. On XFS most work is the buffer's checksum
    /// (`xlog_cksum()`), by the sync that writes the buffer; traced in a guest: 3, 14 and 3 us.
    pub(super) fn commit_work(&self) -> [Cycles; 2] {
        match self.kind {
            FileSystemKind::Ext4 => [self.commit / 2, self.commit - self.commit / 2],
            FileSystemKind::Xfs => [self.commit / 6; 2],
        }
    }

    /// Work in cycles of the sync that writes a buffer of XFS's log, beside the request.
    pub(super) fn buffer_work(&self) -> Cycles {
        self.commit - self.commit / 6 * 2
    }
}

/// What the journal's thread does next. XFS's worker has only the stages `Rest` and `Wake`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitStage {
    /// Begin a requested commit, or sleep.
    Rest,
    /// Submit the blocks of the transaction, which was closed to changes.
    Blocks,
    /// Sleep until the blocks are written.
    LeaveForBlocks,
    /// Prepare the commit block.
    Record,
    /// Submit the flush before the commit block. A drive that needs no flush gets the block at once.
    SubmitRecord,
    /// Sleep until the commit block is on the media.
    LeaveForRecord,
    /// Clean up.
    CleanUp,
    /// Wake all tasks that wait for the transaction. XFS has the transaction in a buffer of the log by then.
    Wake,
}

/// What a worker of the kernel does for the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalWork {
    /// Submit ext4's commit block, or the buffer of XFS's log with this number, after a flush (`kblockd`). The work is done in the name
    /// of the CPU that submitted the flush.
    Submit(CpuId, Option<u64>),
    /// End the transactions in the written buffer with this number (`xfs-log`).
    EndBuffer(u64),
}

/// A worker of the kernel with a queue of work, whose front is in progress.
#[derive(Debug)]
pub(super) struct JournalWorker {
    pub(super) task: TaskId,
    pub(super) queue: VecDeque<JournalWork>,
}

/// When a file's timestamps last changed.
#[derive(Clone, Copy, Debug, Default)]
struct Inode {
    /// Number of the tick that gave the file its timestamps; `None` before the file's first write.
    tick: Option<u64>,
    /// Transaction with the last change of timestamps; 0: no change.
    transaction: u64,
}

/// What the journal asks of a write that begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BegunWrite {
    /// Work in cycles.
    pub(super) work: Cycles,
    /// Page cache number of the request that the write waits for, if any: a request that writes the block of the file's inode.
    pub(super) awaits: Option<u64>,
}

impl BegunWrite {
    /// Work in cycles that the write does besides.
    pub(crate) const fn work(self) -> Cycles {
        self.work
    }
}

/// What a sync of a file needs after the file's data are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyncNeeds {
    /// Transaction to commit, if any.
    pub(super) transaction: Option<u64>,
    /// Whether the drive has to be flushed after the commit. A sync that writes XFS's buffer itself needs no such flush.
    pub(super) flush: bool,
}

/// What follows from the end of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndedPush {
    /// Page cache number by which tasks wait for the push, if any task waits.
    pub(super) awaited: Option<u64>,
    /// Whether the transaction begins a new buffer of the log.
    pub(super) new_buffer: bool,
}

/// A file system's journal in a run.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(super) setup: JournalSetup,
    /// Thread that begins commits: ext4's `jbd2`, or XFS's pushing worker (`xfs-cil`).
    pub(super) thread: TaskId,
    /// Kernel workers for the work after an interrupt: one of ext4, one per CPU of XFS.
    pub(super) workers: Vec<JournalWorker>,
    pub(super) stage: CommitStage,
    /// Transaction that takes changes.
    running: u64,
    /// Last transaction whose commit was requested.
    requested: u64,
    /// Last committed transaction.
    committed: u64,
    /// Transactions that tasks wait for, each with the page cache number of the wait.
    awaited: Vec<(u64, u64)>,
    inodes: Vec<Inode>,
    /// Page cache number of ext4's request in flight, if any.
    pub(super) in_flight: Option<u64>,
    /// XFS's log; `None` in ext4.
    pub(super) log: Option<XfsLog>,
    /// Where the next blocks go in the journal, in pages.
    next_page: u64,
}

impl Journal {
    /// Creates the journal of a file system with this number of files. The workers' task numbers follow the thread's number.
    pub(super) fn new(setup: JournalSetup, files: usize, thread: TaskId, cpus: usize) -> Self {
        let (log, count) = match setup.kind {
            FileSystemKind::Ext4 => (None, 1),
            FileSystemKind::Xfs => (Some(XfsLog::default()), cpus),
        };
        let workers = (1..=count).map(|number| JournalWorker {
            task: thread + number,
            queue: VecDeque::new(),
        });
        Self {
            setup,
            thread,
            workers: workers.collect(),
            stage: CommitStage::Rest,
            running: 1,
            requested: 0,
            committed: 0,
            awaited: Vec::new(),
            inodes: vec![Inode::default(); files],
            in_flight: None,
            log,
            next_page: 0,
        }
    }

    /// The worker for an interrupt on a CPU. ext4 commits one transaction at a time, so that one worker serves all CPUs.
    pub(super) fn worker_on(&mut self, cpu: CpuId) -> Option<&mut JournalWorker> {
        let count = self.workers.len().max(1);
        self.workers.get_mut(cpu % count)
    }

    /// The worker whose task has this number.
    pub(super) fn worker_of_task(&mut self, task: TaskId) -> Option<&mut JournalWorker> {
        self.workers.iter_mut().find(|worker| worker.task == task)
    }

    /// A write to a file begins, and changes the file's timestamps if a tick has passed.
    pub(super) fn begin_write(&mut self, file: usize, now: u64) -> BegunWrite {
        let tick = Some(now / self.setup.tick);
        let (running, written) = (self.running, self.blocks_being_written());
        let (write, inode_work) = (self.setup.write, self.setup.inode);
        match self.inodes.get_mut(file) {
            Some(inode) if inode.tick != tick => {
                (inode.tick, inode.transaction) = (tick, running);
                BegunWrite {
                    work: write + inode_work,
                    awaits: written,
                }
            }
            _ => BegunWrite {
                work: write,
                awaits: None,
            },
        }
    }

    /// Page cache number of the request that writes the transaction's blocks on ext4, while the request is in flight.
    pub(super) fn blocks_being_written(&self) -> Option<u64> {
        let is_at_blocks = matches!(
            self.stage,
            CommitStage::LeaveForBlocks | CommitStage::Record
        );
        self.in_flight
            .filter(|_| is_at_blocks && self.log.is_none())
    }

    /// What a sync needs once the file's data are written; `data_only`: an fdatasync.
    pub(super) fn needs_of_sync(&self, file: usize, data_only: bool) -> SyncNeeds {
        let changed = self.inodes.get(file).map_or(0, |inode| inode.transaction);
        if data_only || self.is_committed(changed) {
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
            flush: self.log.is_some() || (changed < self.running && flushes),
        }
    }

    /// Whether a transaction is committed.
    pub(super) fn is_committed(&self, transaction: u64) -> bool {
        transaction <= self.committed
    }

    /// The transaction that XFS's worker pushes now or next, if any.
    pub(super) fn transaction_being_pushed(&self) -> Option<u64> {
        if self.stage != CommitStage::Rest {
            return Some(self.running - 1);
        }
        (self.requested >= self.running).then_some(self.running)
    }

    /// Page cache number of the wait for a transaction; `fresh` if no task waits for the transaction yet.
    pub(super) fn number_to_await(&mut self, transaction: u64, fresh: u64) -> u64 {
        let known = self.awaited.iter().find(|(other, _)| *other == transaction);
        if let Some((_, number)) = known {
            return *number;
        }
        self.awaited.push((transaction, fresh));
        fresh
    }

    /// Whether tasks wait for the journal by this number.
    pub(super) fn is_commit(&self, number: u64) -> bool {
        self.awaited.iter().any(|(_, awaited)| *awaited == number)
            || (self.log.as_ref()).is_some_and(|log| log.has_buffer(number))
    }

    /// Asks for the commit of a transaction. Returns whether the thread has to be woken.
    pub(super) fn request_commit(&mut self, transaction: u64) -> bool {
        let is_new = transaction > self.requested;
        self.requested = self.requested.max(transaction);
        is_new && self.stage == CommitStage::Rest
    }

    /// Closes the running transaction if a sync has requested its commit. Returns whether the commit begins.
    pub(super) fn begin_requested_commit(&mut self) -> bool {
        let begins = self.requested >= self.running;
        if begins {
            self.running += 1;
        }
        begins
    }

    /// Ends the commit in progress. Returns the page cache number of the wait, if any task waits.
    pub(super) fn end_commit(&mut self) -> Option<u64> {
        self.committed = self.running - 1;
        self.take_number_that_awaits(self.committed)
    }

    /// Notes that the transaction being pushed is in a buffer of XFS's log; `fresh` numbers a new buffer.
    pub(super) fn end_push(&mut self, fresh: u64) -> EndedPush {
        let pushed = self.running - 1;
        let log = self.log.as_mut();
        EndedPush {
            new_buffer: log.is_some_and(|log| log.record_transaction(pushed, fresh)),
            awaited: self.take_number_that_awaits(pushed),
        }
    }

    /// Notes that the buffer with this number is written. Returns the numbers of all buffers whose transactions are committed now.
    pub(super) fn end_buffer(&mut self, number: u64) -> Vec<u64> {
        let ended = (self.log.as_mut()).map_or_else(Vec::new, |log| log.end_buffer(number));
        if let Some((last, _)) = ended.last() {
            self.committed = *last;
        }
        ended.into_iter().map(|(_, number)| number).collect()
    }

    /// Removes the waits for transactions up to `upto`. Returns the page cache number of the first wait, if any.
    fn take_number_that_awaits(&mut self, upto: u64) -> Option<u64> {
        let mut ended = self
            .awaited
            .extract_if(.., |(transaction, _)| *transaction <= upto);
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
        journal_on(FileSystemKind::Ext4)
    }

    fn journal_on(kind: FileSystemKind) -> Journal {
        let setup = JournalSetup {
            kind,
            tick: TICK,
            commit: 10_001,
            inode: 7,
            write: 1,
        };
        Journal::new(setup, 2, 10, 2)
    }

    const FLUSH_ONLY: SyncNeeds = SyncNeeds {
        transaction: None,
        flush: true,
    };

    const fn begun(work: Cycles, awaits: Option<u64>) -> BegunWrite {
        BegunWrite { work, awaits }
    }

    #[test]
    fn only_the_first_write_after_a_tick_changes_the_inode() {
        let mut journal = journal();
        assert_eq!(journal.needs_of_sync(0, false), FLUSH_ONLY);
        let writes = [(0, 0), (0, TICK - 1), (1, TICK - 1), (0, TICK)];
        let found = writes.map(|(file, now)| journal.begin_write(file, now));
        assert_eq!(found, [8, 1, 8, 8].map(|work| begun(work, None)));
        assert_eq!(journal.setup.commit_work(), [5000, 5001]);
    }

    #[test]
    fn a_change_of_timestamps_waits_while_a_commit_writes_the_inodes() {
        let mut journal = journal();
        (journal.stage, journal.in_flight) = (CommitStage::Record, Some(5));
        assert_eq!(journal.begin_write(1, 0), begun(8, Some(5)));
        // This file has the time of the tick already.
        assert_eq!(journal.begin_write(1, 1), begun(1, None));
        journal.stage = CommitStage::CleanUp;
        assert_eq!(journal.begin_write(0, 0), begun(8, None));
        let mut log = journal_on(FileSystemKind::Xfs);
        (log.stage, log.in_flight) = (CommitStage::Record, Some(5));
        assert_eq!(log.begin_write(0, 0), begun(8, None));
    }

    #[test]
    fn syncs_of_one_transaction_share_a_commit_and_later_changes_take_the_next() {
        let mut journal = journal();
        journal.begin_write(0, 0);
        let first = journal.needs_of_sync(0, false);
        assert_eq!((first.transaction, first.flush), (Some(1), false));
        assert_eq!(journal.needs_of_sync(0, true), FLUSH_ONLY);
        assert!(journal.request_commit(1));
        assert!(!journal.request_commit(1));
        assert!(journal.begin_requested_commit());
        journal.stage = CommitStage::LeaveForBlocks;
        // Another file's change comes after the transaction was closed.
        journal.begin_write(1, 1);
        assert_eq!(journal.needs_of_sync(0, false), first);
        assert_eq!(journal.needs_of_sync(1, false).transaction, Some(2));
        assert!(!journal.request_commit(2));
        let numbers = [(1, 10), (1, 11), (2, 12)];
        let awaited = numbers.map(|(one, fresh)| journal.number_to_await(one, fresh));
        assert_eq!(awaited, [10, 10, 12]);
        // Data that are written during the commit's flush need another flush.
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
    fn a_transaction_of_xfs_is_committed_with_its_buffer_and_not_when_pushed() {
        let mut journal = journal_on(FileSystemKind::Xfs);
        let workers = [0, 1, 2].map(|cpu| journal.worker_on(cpu).unwrap().task);
        assert_eq!(workers, [11, 12, 11]);
        journal.begin_write(0, 0);
        // Only the sync that writes the buffer needs no flush.
        let needs = journal.needs_of_sync(0, false);
        assert_eq!((needs.transaction, needs.flush), (Some(1), true));
        assert_eq!(journal.transaction_being_pushed(), None);
        assert!(journal.request_commit(1));
        assert_eq!(journal.transaction_being_pushed(), Some(1));
        assert_eq!(journal.number_to_await(1, 20), 20);
        assert!(journal.begin_requested_commit());
        journal.stage = CommitStage::Wake;
        assert_eq!(journal.transaction_being_pushed(), Some(1));
        let ended = EndedPush {
            awaited: Some(20),
            new_buffer: true,
        };
        assert_eq!(journal.end_push(21), ended);
        journal.stage = CommitStage::Rest;
        assert!(!journal.is_committed(1) && journal.is_commit(21));
        assert_eq!(journal.end_buffer(21), [21]);
        assert!(journal.is_committed(1) && !journal.is_commit(21));
        assert_eq!(journal.needs_of_sync(0, false), FLUSH_ONLY);
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
