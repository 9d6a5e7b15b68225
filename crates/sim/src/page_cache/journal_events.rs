//! What the journal's threads do, and how a sync waits for a commit.
//!
//! ext4's thread, as `kjournald2()` and `jbd2_journal_commit_transaction()` (`fs/jbd2`, Linux 6.12), writes the transaction's blocks and
//! waits for the writes. Then the thread submits the commit block, after a flush and forced to the media. The block layer sends the flush.
//! Once the flush has ended, a worker of the kernel submits the block (`blk_flush_complete_seq()`, `block/blk-flush.c`).
//!
//! XFS's worker, as `xlog_cil_push_work()` (`fs/xfs/xfs_log_cil.c`), moves the transaction into a buffer and writes nothing. The sync
//! itself submits the buffer, in the same way as a commit block. After the write's interrupt a worker of the interrupted CPU ends the
//! transactions and wakes the syncs (`xlog_ioend_work()`, `fs/xfs/xfs_log.c`).

use wakepath_policies::psd::LeaseTrigger;

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, TaskId};
use crate::core::observer::{Observer, RequestOrigin, RequestPlace};
use crate::cpu::phase::Mode;
use crate::drive::Piece;
use crate::engine::Engine;
use crate::page_cache::caller::Stage;
use crate::page_cache::events::{CallTurn, Turn};
use crate::page_cache::journal::{BLOCKS_BYTES, BegunWrite, CommitStage, Journal, JournalWork};
use crate::page_cache::pages::{PAGE, Pages};
use crate::page_cache::xfs_log::ForceStep;
use crate::task::state::{Step, Task};

/// File number of the journal in the page cache.
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
        let (thread, files) = (self.tasks.len(), cache.pages.setup.files);
        let journal = Journal::new(setup, files, thread, self.cpus.len());
        let workers = journal.workers.len();
        cache.journal = Some(journal);
        self.tasks.push(Task::new_journal_thread());
        self.tasks
            .extend((0..workers).map(Task::new_journal_worker));
    }

    /// Notes that a task's write begins. Returns what the journal of its file system asks of the write.
    pub(crate) fn begin_write_on_file_system(&mut self, task: TaskId) -> BegunWrite {
        let now = self.context.now();
        let caller = self.tasks[task].caller.as_ref();
        let journal = self.cache.as_mut().and_then(|cache| cache.journal.as_mut());
        match (caller, journal) {
            (Some(caller), Some(journal)) if caller.journals => {
                journal.begin_write(caller.file, now)
            }
            _ => BegunWrite::default(),
        }
    }

    /// Takes a task's sync to the commit that the sync needs, and sets whether the sync flushes the drive after the commit.
    #[cold]
    pub(super) fn next_turn_of_commit_wait(&mut self, cpu: CpuId, task: TaskId) -> Option<Turn> {
        let (caller, cache) = (self.tasks[task].caller.as_mut()?, self.cache.as_mut()?);
        let fresh = cache.pages.next_request_number();
        let journal = cache.journal.as_mut()?;
        match caller.stage {
            Stage::Commit => {
                caller.stage = Stage::Settle;
                let needs = journal.needs_of_sync(caller.file, caller.syncs_data_only);
                caller.needs_no_flush = !needs.flush;
                (caller.transaction, caller.has_awaited_buffer) = (needs.transaction, false);
                let transaction = needs.transaction?;
                if journal.log.is_some() {
                    caller.stage = Stage::ForceLog;
                } else {
                    self.await_thread(cpu, task, (transaction, fresh), Stage::Settle);
                }
            }
            Stage::ForceLog => return self.next_turn_of_log_force(cpu, task, fresh),
            Stage::WriteBuffer(buffer) => {
                (caller.needs_no_flush, caller.transaction) = (true, None);
                caller.wait_for(buffer, Stage::Settle);
                let request = self.submit_commit_record((cpu, task))?;
                let journal = self.cache.as_mut()?.journal.as_mut()?;
                journal.log.as_mut()?.set_request_of_buffer(buffer, request);
            }
            _ => caller.stage = Stage::Settle,
        }
        None
    }

    /// Takes a task's sync on XFS to the buffer with its transaction.
    fn next_turn_of_log_force(&mut self, cpu: CpuId, task: TaskId, fresh: u64) -> Option<Turn> {
        let (caller, cache) = (self.tasks[task].caller.as_mut()?, self.cache.as_mut()?);
        let journal = cache.journal.as_mut()?;
        let transaction = caller.transaction?;
        let log = journal.log.as_mut()?;
        match log.take_next_step_of_sync(transaction, caller.has_awaited_buffer) {
            ForceStep::Push => {
                // A push under way is awaited first, whatever is pushed (`flush_workqueue()` in `xlog_cil_push_now()`).
                let pushed = journal.transaction_being_pushed().unwrap_or(transaction);
                self.await_thread(cpu, task, (pushed, fresh), Stage::ForceLog);
            }
            ForceStep::AwaitPrevious(number) => {
                caller.has_awaited_buffer = true;
                caller.wait_for(number, Stage::ForceLog);
            }
            ForceStep::Write(number) => {
                caller.stage = Stage::WriteBuffer(number);
                let own = journal.setup.buffer_work();
                return Some(Turn::Work(own + self.setup.io.flush_submission_work()));
            }
            ForceStep::Await(number) => caller.wait_for(number, Stage::Settle),
            ForceStep::Done => caller.stage = Stage::Settle,
        }
        None
    }

    /// Lets a task's sync wait until the journal's thread is done with a transaction, and wakes a sleeping thread. `fresh` numbers the
    /// wait if no other task waits for the transaction.
    fn await_thread(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        (transaction, fresh): (u64, u64),
        after: Stage,
    ) {
        let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache) else {
            return;
        };
        let Some(journal) = &mut cache.journal else {
            return;
        };
        let number = journal.number_to_await(transaction, fresh);
        let wakes = journal.request_commit(transaction);
        let thread = journal.thread;
        if number == fresh {
            cache.others.push(fresh);
        }
        caller.wait_for(number, after);
        if wakes && !self.tasks[thread].runnable {
            let to = self.choose_cpu_for_woken_task(thread, Some((cpu, false)));
            self.wake_task(Some(cpu), thread, to);
        }
    }

    /// Goes on with the commit in progress after a finished piece of the journal thread's work, or after a wake-up.
    pub(crate) fn continue_commit(&mut self, cpu: CpuId, thread: TaskId) -> CallTurn {
        let journal = self.cache.as_ref().and_then(|cache| cache.journal.as_ref());
        let pushes = journal.is_some_and(|journal| journal.log.is_some());
        let turn = if pushes {
            self.next_turn_of_push(cpu)
        } else {
            self.next_turn_of_commit(cpu, thread)
        };
        match turn {
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

    /// Takes XFS's worker to the end of a push, and to the next one.
    fn next_turn_of_push(&mut self, cpu: CpuId) -> Option<CommitTurn> {
        let mut slept = true;
        loop {
            let cache = self.cache.as_mut()?;
            let journal = cache.journal.as_mut()?;
            if journal.stage == CommitStage::Rest {
                if !journal.begin_requested_commit() {
                    return Some(CommitTurn::Sleep { iowait: false });
                }
                journal.stage = CommitStage::Wake;
                let [before, _] = journal.setup.commit_work();
                let switch = if slept {
                    self.setup.io.work_after_page_cache_wait(false, true)
                } else {
                    0
                };
                return Some(CommitTurn::Work(switch + before));
            }
            journal.stage = CommitStage::Rest;
            let fresh = cache.pages.next_request_number();
            let ended = journal.end_push(fresh);
            if ended.new_buffer {
                cache.others.push(fresh);
            }
            self.wake_tasks_that_await(cpu, ended.awaited);
            slept = false;
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
                    let (bytes, kind) = (BLOCKS_BYTES, RequestKind::Plain);
                    let request = self.submit_journal_request((cpu, thread), bytes, kind);
                    self.set_request_of_thread(request);
                    // Writes that change timestamps may wait for these blocks.
                    self.cache.as_mut()?.others.extend(request);
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
                    let request = self.submit_commit_record((cpu, thread));
                    self.set_request_of_thread(request);
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
                    self.wake_tasks_that_await(cpu, ended);
                    slept = false;
                }
            }
        }
    }

    /// Wakes the tasks whose syncs wait for a page cache number, if any.
    fn wake_tasks_that_await(&mut self, cpu: CpuId, number: Option<u64>) {
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

    /// Notes the request of ext4's thread.
    fn set_request_of_thread(&mut self, request: Option<u64>) {
        if let Some(journal) = (self.cache.as_mut()).and_then(|cache| cache.journal.as_mut()) {
            journal.in_flight = request;
        }
    }

    /// Submits the flush before a commit record, or the record at once to a drive that needs no flush. Returns the request's page cache
    /// number.
    fn submit_commit_record(&mut self, submitter: (CpuId, TaskId)) -> Option<u64> {
        if self.setup.volume.has_volatile_cache() {
            self.submit_journal_request(submitter, 0, RequestKind::Flush)
        } else {
            self.submit_journal_request(submitter, PAGE, RequestKind::Plain)
        }
    }

    /// Submits a write to the journal, or a flush. Returns the request's page cache number.
    fn submit_journal_request(
        &mut self,
        (cpu, submitter): (CpuId, TaskId),
        bytes: u64,
        kind: RequestKind,
    ) -> Option<u64> {
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
        let now = self.context.now();
        let cache = self.cache.as_mut()?;
        let number = cache.pages.next_request_number();
        let journal = cache.journal.as_mut()?;
        let pages = Pages {
            file: JOURNAL,
            first: journal.take_place(bytes),
            count: bytes / PAGE,
        };
        let own_kind = RequestKind::WriteBack;
        let task = journal.thread;
        let write = Direction::Write;
        let mut whole =
            Request::new_with_submission_begun((cpu, task), write, own_kind, bytes, now);
        // RAID0 flushes its drives by itself.
        if kind != RequestKind::Plain && self.drives.len() == 1 {
            whole.set_in_flush_sequence();
        }
        let origin = match kind {
            RequestKind::Flush => RequestOrigin::Flush,
            RequestKind::Through => RequestOrigin::ForcedWrite,
            _ => RequestOrigin::PageCache,
        };
        let unsettled = (origin, RequestPlace::Unsettled);
        let id = self.add_page_request(whole, submitter, (number, pages), unsettled)?;
        if kind == RequestKind::Flush {
            let drives = 0..self.drives.len();
            self.give_pieces_to_drives(id, kind, drives.map(Piece::for_flush));
        } else {
            self.give_page_request_to_drives(id, kind, pages);
        }
        Some(number)
    }

    /// Handles the end of a page cache's request after its interrupt on a CPU. Returns whether the journal had made the request.
    pub(super) fn end_journal_request(
        &mut self,
        cpu: CpuId,
        number: u64,
        request: &Request,
    ) -> bool {
        let cache = self.cache.as_mut();
        let Some(journal) = cache.and_then(|cache| cache.journal.as_mut()) else {
            return false;
        };
        let buffer = (journal.log.as_ref()).and_then(|log| log.buffer_of_request(number));
        if buffer.is_none() && journal.in_flight != Some(number) {
            return false;
        }
        if request.bytes == 0 {
            // The flush before a record is over, and a worker of this CPU submits the record.
            let work = JournalWork::Submit(request.submitting_cpu(), buffer);
            self.give_work_to_worker(cpu, work);
            return true;
        }
        if let Some(buffer) = buffer {
            self.give_work_to_worker(cpu, JournalWork::EndBuffer(buffer));
        } else {
            let writes_blocks = journal.blocks_being_written().is_some();
            journal.in_flight = None;
            let thread = journal.thread;
            if writes_blocks {
                self.wake_tasks_after_request(cpu, number, request);
            }
            if !self.tasks[thread].runnable {
                let to = self.choose_cpu_for_woken_task(thread, None);
                self.wake_task(Some(cpu), thread, to);
            }
        }
        self.end_write_after_flush(request);
        true
    }

    /// Gives the journal's worker on a CPU more work.
    fn give_work_to_worker(&mut self, cpu: CpuId, work: JournalWork) {
        let cache = self.cache.as_mut();
        let Some(journal) = cache.and_then(|cache| cache.journal.as_mut()) else {
            return;
        };
        let Some(worker) = journal.worker_on(cpu) else {
            return;
        };
        worker.queue.push_back(work);
        let task = worker.task;
        if !self.tasks[task].runnable {
            let cycles = self.cycles_of_journal_work(work);
            let switch = self.setup.io.work_after_page_cache_wait(false, true);
            self.tasks[task].begin_step(Step::Worker, switch + cycles);
            self.wake_task(Some(cpu), task, cpu);
        }
    }

    fn cycles_of_journal_work(&self, work: JournalWork) -> Cycles {
        let journal = self.cache.as_ref().and_then(|cache| cache.journal.as_ref());
        match work {
            JournalWork::Submit(..) => self.setup.io.submission_work(PAGE),
            JournalWork::EndBuffer(_) => {
                journal.map_or(0, |journal| journal.setup.commit_work()[1])
            }
        }
    }

    /// Ends a piece of work of the journal's worker. The worker goes on with the next piece, or sleeps.
    pub(crate) fn end_work_of_journal_worker(&mut self, cpu: CpuId, task: TaskId) -> CallTurn {
        let next = self.take_work_of_journal_worker(cpu, task);
        if let Some(work) = next {
            let cycles = self.cycles_of_journal_work(work);
            self.tasks[task].begin_step(Step::Worker, cycles);
            self.start_work(cpu, Mode::Task, cycles);
            return CallTurn::Works;
        }
        self.put_current_task_to_sleep(cpu, task, false);
        CallTurn::Sleeps
    }

    /// Submits the request of a worker's finished work, or ends the work's buffer. Returns the worker's next work, if any.
    fn take_work_of_journal_worker(&mut self, cpu: CpuId, task: TaskId) -> Option<JournalWork> {
        let journal = self.cache.as_mut()?.journal.as_mut()?;
        match journal.worker_of_task(task)?.queue.pop_front()? {
            JournalWork::Submit(submitter, buffer) => {
                let kind = RequestKind::Through;
                let request = self.submit_journal_request((submitter, task), PAGE, kind)?;
                let journal = self.cache.as_mut()?.journal.as_mut()?;
                match (buffer, &mut journal.log) {
                    (Some(buffer), Some(log)) => log.set_request_of_buffer(buffer, request),
                    _ => journal.in_flight = Some(request),
                }
            }
            JournalWork::EndBuffer(number) => {
                for ended in journal.end_buffer(number) {
                    self.wake_tasks_that_await(cpu, Some(ended));
                }
            }
        }
        let journal = self.cache.as_mut()?.journal.as_mut()?;
        journal.worker_of_task(task)?.queue.front().copied()
    }
}
