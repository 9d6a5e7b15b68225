//! What the journal's thread does, and how a sync waits for its commit.
//!
//! As `kjournald2()` and `jbd2_journal_commit_transaction()` (`fs/jbd2`, Linux 6.12). The thread writes the transaction's blocks and
//! waits for them, then submits the commit block with a flush before and forced to the media. The block layer sends the flush; once it
//! has ended, a worker of the kernel submits the block (`blk_flush_complete_seq()`, `block/blk-flush.c`).

use wakepath_policies::psd::LeaseTrigger;

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, TaskId};
use crate::core::observer::{Observer, RequestOrigin, RequestPlace};
use crate::cpu::phase::Mode;
use crate::drive::Piece;
use crate::engine::Engine;
use crate::page_cache::caller::Stage;
use crate::page_cache::events::CallTurn;
use crate::page_cache::journal::{BLOCKS_BYTES, CommitStage, Journal};
use crate::page_cache::pages::{PAGE, Pages};
use crate::task::state::{Step, Task};

/// File number of the journal among those of the page cache.
const JOURNAL: usize = usize::MAX;

/// What the journal's thread does after a finished piece of work.
enum CommitTurn {
    Work(Cycles),
    Sleep { iowait: bool },
}

impl<O: Observer> Engine<'_, O> {
    /// Creates the journal of the machine's file system with its threads, if any job uses it.
    pub(crate) fn create_journal_and_threads(&mut self) {
        let setup = self.setup.page_cache.and_then(|setup| setup.journal);
        let (Some(setup), Some(cache)) = (setup, &mut self.cache) else {
            return;
        };
        let (thread, worker) = (self.tasks.len(), self.tasks.len() + 1);
        let files = cache.pages.setup.files;
        cache.journal = Some(Journal::new(setup, files, thread, worker));
        self.tasks.extend(Task::new_journal_threads());
    }

    /// Notes that a task's write begins. Returns the work in cycles to change its file's timestamps.
    pub(crate) fn change_timestamps_for_write(&mut self, task: TaskId) -> Cycles {
        let now = self.context.now();
        let caller = self.tasks[task].caller.as_ref();
        let journal = self.cache.as_mut().and_then(|cache| cache.journal.as_mut());
        match (caller, journal) {
            (Some(caller), Some(journal)) if caller.journals => {
                journal.change_timestamps(caller.file, now)
            }
            _ => 0,
        }
    }

    /// Has a task's sync wait for the commit that it needs, and sets whether it flushes the drive after that.
    pub(super) fn begin_wait_for_commit(&mut self, cpu: CpuId, task: TaskId) {
        let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache) else {
            return;
        };
        caller.stage = Stage::Settle;
        let fresh = cache.pages.next_request_number();
        let Some(journal) = &mut cache.journal else {
            return;
        };
        let needs = journal.needs_of_sync(caller.file, caller.syncs_data_only);
        caller.needs_no_flush = !needs.flush;
        let Some(transaction) = needs.transaction else {
            return;
        };
        let number = journal.number_to_await(transaction, fresh);
        let wakes = journal.request_commit(transaction);
        let thread = journal.thread;
        if number == fresh {
            cache.others.push(fresh);
        }
        caller.wait_for(number, Stage::Settle);
        if wakes && !self.tasks[thread].runnable {
            let to = self.choose_cpu_for_woken_task(thread, Some((cpu, false)));
            self.wake_task(Some(cpu), thread, to);
        }
    }

    /// Goes on with the commit in progress after a finished piece of the journal thread's work, or after a wake-up.
    pub(crate) fn continue_commit(&mut self, cpu: CpuId, thread: TaskId) -> CallTurn {
        match self.next_turn_of_commit(cpu, thread) {
            Some(CommitTurn::Work(work)) => {
                self.tasks[thread].begin_step(Step::Call, work);
                self.start_work(cpu, Mode::Task, work);
                CallTurn::Works
            }
            turn => {
                let iowait = matches!(turn, Some(CommitTurn::Sleep { iowait: true }));
                self.tasks[thread].begin_step(Step::Call, 0);
                self.put_current_task_to_sleep(cpu, thread, iowait);
                CallTurn::Sleeps
            }
        }
    }

    /// Takes the commit through its stages up to the thread's next action.
    fn next_turn_of_commit(&mut self, cpu: CpuId, thread: TaskId) -> Option<CommitTurn> {
        let io = &self.setup.io;
        let leave = io.work_to_leave_run_queue().unwrap_or(0);
        let mut slept = true;
        loop {
            let after_wait = if slept {
                io.work_after_page_cache_wait(false, true)
            } else {
                0
            };
            let journal = self.cache.as_mut()?.journal.as_mut()?;
            let [before, after] = journal.setup.commit_work();
            let is_in_flight = journal.in_flight.is_some();
            match journal.stage {
                CommitStage::Rest => {
                    if !journal.begin_requested_commit() {
                        return Some(CommitTurn::Sleep { iowait: false });
                    }
                    journal.stage = CommitStage::Blocks;
                    let own = before + io.submission_work(BLOCKS_BYTES);
                    return Some(CommitTurn::Work(after_wait + own));
                }
                CommitStage::Blocks => {
                    journal.stage = CommitStage::LeaveForBlocks;
                    let bytes = BLOCKS_BYTES;
                    self.submit_journal_request((cpu, thread), bytes, RequestKind::Plain);
                    return Some(CommitTurn::Work(leave));
                }
                CommitStage::LeaveForBlocks => {
                    journal.stage = CommitStage::Record;
                    if is_in_flight {
                        return Some(CommitTurn::Sleep { iowait: true });
                    }
                    slept = false;
                }
                CommitStage::Record => {
                    journal.stage = CommitStage::SubmitRecord;
                    return Some(CommitTurn::Work(after_wait + io.flush_submission_work()));
                }
                CommitStage::SubmitRecord => {
                    journal.stage = CommitStage::LeaveForRecord;
                    let (bytes, kind) = if self.setup.volume.has_volatile_cache() {
                        (0, RequestKind::Flush)
                    } else {
                        (PAGE, RequestKind::Plain)
                    };
                    self.submit_journal_request((cpu, thread), bytes, kind);
                    return Some(CommitTurn::Work(leave));
                }
                CommitStage::LeaveForRecord => {
                    journal.stage = CommitStage::CleanUp;
                    if is_in_flight {
                        return Some(CommitTurn::Sleep { iowait: true });
                    }
                    slept = false;
                }
                CommitStage::CleanUp => {
                    journal.stage = CommitStage::Wake;
                    return Some(CommitTurn::Work(after_wait + after));
                }
                CommitStage::Wake => {
                    journal.stage = CommitStage::Rest;
                    let ended = journal.end_commit();
                    self.wake_tasks_that_await_commit(cpu, ended);
                    slept = false;
                }
            }
        }
    }

    /// Wakes the tasks whose syncs wait for the commit that is over now.
    fn wake_tasks_that_await_commit(&mut self, cpu: CpuId, number: Option<u64>) {
        let now = self.context.now();
        let (Some(number), Some(cache)) = (number, &mut self.cache) else {
            return;
        };
        cache.others.retain(|other| *other != number);
        for task in cache.take_waiters(number) {
            if let Some(caller) = &mut self.tasks[task].caller {
                caller.unlocked_at = Some(now);
            }
            let to = self.choose_cpu_for_woken_task(task, Some((cpu, false)));
            self.wake_task(Some(cpu), task, to);
        }
    }

    /// Submits a write of the journal's, or a flush.
    fn submit_journal_request(
        &mut self,
        (cpu, submitter): (CpuId, TaskId),
        bytes: u64,
        kind: RequestKind,
    ) {
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
        let now = self.context.now();
        let Some(cache) = &mut self.cache else {
            return;
        };
        let number = cache.pages.next_request_number();
        let Some(journal) = &mut cache.journal else {
            return;
        };
        journal.in_flight = Some(number);
        let pages = Pages {
            file: JOURNAL,
            first: journal.take_place(bytes),
            count: bytes / PAGE,
        };
        let own_kind = RequestKind::WriteBack;
        let task = journal.thread;
        let write = Direction::Write;
        let whole = Request::new_with_submission_begun((cpu, task), write, own_kind, bytes, now);
        let origin = match kind {
            RequestKind::Flush => RequestOrigin::Flush,
            RequestKind::Through => RequestOrigin::ForcedWrite,
            _ => RequestOrigin::PageCache,
        };
        let unsettled = (origin, RequestPlace::Unsettled);
        let Some(id) = self.add_page_request(whole, submitter, (number, pages), unsettled) else {
            return;
        };
        if kind == RequestKind::Flush {
            let drives = 0..self.drives.len();
            self.give_pieces_to_drives(id, kind, drives.map(Piece::for_flush));
        } else {
            self.give_page_request_to_drives(id, kind, pages);
        }
    }

    /// Follows the end of a request of the page cache after its interrupt on a CPU. Returns whether it was the journal's.
    pub(super) fn end_journal_request(&mut self, cpu: CpuId, number: u64, bytes: u64) -> bool {
        let cache = self.cache.as_mut();
        let Some(journal) = cache.and_then(|cache| cache.journal.as_mut()) else {
            return false;
        };
        if journal.in_flight != Some(number) {
            return false;
        }
        if bytes == 0 {
            // The flush before a commit block is over, and the worker of this CPU submits the block.
            let worker = journal.worker;
            self.tasks[worker].begin_step(
                Step::Worker,
                self.setup.io.work_after_page_cache_wait(false, true)
                    + self.setup.io.submission_work(PAGE),
            );
            self.wake_task(Some(cpu), worker, cpu);
            return true;
        }
        journal.in_flight = None;
        let thread = journal.thread;
        if !self.tasks[thread].runnable {
            let to = self.choose_cpu_for_woken_task(thread, None);
            self.wake_task(Some(cpu), thread, to);
        }
        true
    }

    /// Ends the work of the kernel's worker: it submits the commit block, and sleeps.
    pub(crate) fn submit_commit_block(&mut self, cpu: CpuId, worker: TaskId) {
        self.submit_journal_request((cpu, worker), PAGE, RequestKind::Through);
        self.put_current_task_to_sleep(cpu, worker, false);
    }
}
