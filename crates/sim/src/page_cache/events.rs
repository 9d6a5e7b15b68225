//! Writes into the page cache, and their way to the drives: by request from a process, or by the kernel.

use std::collections::{BTreeMap, VecDeque};

use wakepath_policies::psd::LeaseTrigger;

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, RequestId, TaskId, Timer};
use crate::core::observer::{Observer, RequestOrigin, RequestPlace, RequestStep};
use crate::core::parts::Part;
use crate::cpu::phase::Mode;
use crate::drive::Piece;
use crate::engine::Engine;
use crate::page_cache::caller::{Reading, Stage};
use crate::page_cache::journal::BegunWrite;
use crate::page_cache::pages::{PAGE, Pages};
use crate::page_cache::state::{PageCache, Round};
use crate::page_cache::write_back::WriteBack;
use crate::task::state::{Step, Task};

/// Pages that a writer copies between two looks at the limits for dirty pages.
const PIECE: u64 = 256;

/// What a task does next in a page cache call.
pub(super) enum Turn {
    Work(Cycles),
    /// Be held back until a time in ns, because too many pages are dirty.
    Pause(u64),
    Sleep {
        iowait: bool,
    },
    /// Submit a request to read or write these pages; a flush if there are none.
    Send(Pages),
    /// Submit the request with this number to read these pages into the cache.
    Read(u64, Pages),
    /// Leave the read to wait beside the task.
    Defer,
    /// Return.
    End,
}

/// What a task does after a part of a page cache call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallTurn {
    /// The task works on the next part of the call.
    Works,
    /// The task sleeps, and the CPU is free.
    Sleeps,
    /// The call is over.
    Over,
}

impl<O: Observer> Engine<'_, O> {
    /// Creates the page cache and the kernel's flusher thread, if any job writes into the cache.
    pub(crate) fn create_page_cache_and_flusher(&mut self) {
        let Some(setup) = self.setup.page_cache else {
            return;
        };
        let flusher = self.tasks.len();
        self.tasks.push(Task::new_flusher());
        self.cache = Some(Box::new(WriteBack {
            pages: PageCache::new(setup),
            journal: None,
            flusher,
            round: Round::default(),
            rests: true,
            timer: false,
            requests: BTreeMap::new(),
            others: Vec::new(),
            deferred: Vec::new(),
            waiters: Vec::new(),
            queue: VecDeque::new(),
            admitted: Vec::new(),
        }));
    }

    /// Begins a job's I/O with `bytes` in the page cache. Returns the system call's first work; `None` if the I/O goes to the
    /// drive.
    #[inline(never)]
    pub(crate) fn begin_page_cache_call(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        bytes: u64,
    ) -> Option<Cycles> {
        let jobs = &self.setup.jobs;
        let t = &mut self.tasks[task];
        let (direction, place) =
            t.settle_place_of_next_request(jobs, bytes, self.context.random_streams())?;
        let caller = t.caller.as_ref()?;
        let offset = caller.base.saturating_add(place);
        let begins_pass = place == 0
            && caller
                .reading
                .as_ref()
                .is_some_and(|reading| reading.reopens && reading.end > 0);
        let pages = Pages::covering_bytes(caller.file, offset, bytes);
        if begins_pass {
            self.begin_pass_through_cached_file(task);
        }
        let t = &mut self.tasks[task];
        let caller = t.caller.as_ref()?;
        let cache = self.cache.as_mut()?;
        let is_mapped = (caller.reading.as_ref()).is_some_and(Reading::is_mapped);
        let looks_at_pages =
            is_mapped || (direction == Direction::Read && caller.reading.is_some());
        if direction == Direction::Read && !looks_at_pages && !cache.pages.has_all_cached(pages) {
            cache.pages.remember_cached_pages(pages);
            return None;
        }
        let writes = direction == Direction::Write;
        let submits_alone =
            t.take_next_request_as_cached(jobs, self.context.random_streams(), writes);
        let setup = self.setup.page_cache?;
        let mut work = if is_mapped {
            setup.mapped_io_work()
        } else {
            setup.call + self.setup.cpu.extra_syscall_work(cpu)
        };
        let begun = if writes {
            self.begin_write_on_file_system(task)
        } else {
            BegunWrite::default()
        };
        work += begun.work;
        if submits_alone {
            work += self.setup.io.async_submit_syscall_work();
        }
        let t = &mut self.tasks[task];
        let caller = t.caller.as_mut()?;
        let stage = match begun.awaits {
            _ if looks_at_pages => Stage::Fetch,
            Some(number) => Stage::AwaitInode(number),
            None => Stage::Look,
        };
        caller.begin_call(stage, pages);
        if let Some(reading) = &mut caller.reading {
            (reading.end, reading.waited) = (offset + bytes, false);
        }
        caller.syncs = writes && caller.always_syncs;
        let reads_parts = writes && caller.reads_parts;
        caller.parts = [offset, offset + bytes].map(|at| reads_parts && !at.is_multiple_of(PAGE));
        let kind = RequestKind::Cached;
        caller.request = Request::new_with_submission_begun(
            (cpu, task),
            direction,
            kind,
            bytes,
            self.context.now(),
        );
        caller.work = work;
        t.begin_step(Step::Call, work);
        self.context.tell_observer_of_request(RequestStep::Begun {
            task,
            submitter: task,
        });
        Some(work)
    }

    /// Begins the write-back of all dirty pages of a job's file, for an fdatasync (`data_only`) or fsync. Returns the first work.
    #[cold]
    pub(crate) fn begin_write_back_of_file(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        data_only: bool,
    ) -> Cycles {
        let work = self.setup.cpu.extra_syscall_work(cpu);
        let t = &mut self.tasks[task];
        if let Some(caller) = &mut t.caller {
            caller.begin_call(Stage::WriteBack, Pages::all_in_file(caller.file));
            (caller.syncs, caller.syncs_data_only) = (true, data_only);
            caller.asked_for_commit = !caller.journals;
            let (write, kind) = (Direction::Write, RequestKind::Cached);
            caller.request =
                Request::new_with_submission_begun((cpu, task), write, kind, 0, self.context.now());
        }
        t.begin_step(Step::Call, work);
        self.tag_pages_to_sync(task);
        work
    }

    /// Drops what the page cache has of a task's file, but for dirty pages.
    #[cold]
    pub(crate) fn drop_cached_pages_of_task(&mut self, task: TaskId) {
        if let (Some(caller), Some(cache)) = (&self.tasks[task].caller, &mut self.cache) {
            cache.pages.drop_clean_pages_of_file(caller.file);
        }
    }

    /// Goes on with a task's page cache call after a finished part, or after a wake-up in the call.
    #[inline(never)]
    pub(crate) fn continue_page_cache_call(&mut self, cpu: CpuId, task: TaskId) -> CallTurn {
        self.attribute_time_of_stage(cpu, task);
        loop {
            let turn = self.next_turn_of_call(cpu, task).unwrap_or(Turn::End);
            let t = &mut self.tasks[task];
            match turn {
                Turn::Work(work) => {
                    t.begin_step(Step::Call, work);
                    if let Some(caller) = &mut t.caller {
                        caller.work = work;
                    }
                    self.start_work(cpu, Mode::Task, work);
                    return CallTurn::Works;
                }
                Turn::Pause(until) => {
                    t.begin_step(Step::Call, 0);
                    self.empty_plug(cpu, task);
                    self.start_wheel_timer(cpu, until, Timer::Task(task));
                    self.put_current_task_to_sleep(cpu, task, true);
                    return CallTurn::Sleeps;
                }
                Turn::Sleep { iowait } => {
                    t.begin_step(Step::Call, 0);
                    self.empty_plug(cpu, task);
                    self.put_current_task_to_sleep(cpu, task, iowait);
                    return CallTurn::Sleeps;
                }
                Turn::Send(pages) => {
                    self.submit_pages_to_drives(cpu, task, pages);
                    self.release_page_lock(cpu, task);
                }
                Turn::Read(number, pages) => {
                    self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
                    self.submit_read_into_cache(cpu, task, number, pages);
                }
                Turn::Defer => {
                    self.tasks[task].count_deferred_read();
                    return CallTurn::Over;
                }
                Turn::End => {
                    self.end_page_cache_call(cpu, task);
                    return CallTurn::Over;
                }
            }
        }
    }

    /// Attributes the time of a call's finished stage to the latency of the call's read or write.
    fn attribute_time_of_stage(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let c = &self.cpus[cpu];
        let (awake_since, full_speed) = (c.awake_since(), self.domains[c.domain].full_speed());
        let t = &mut self.tasks[task];
        let own = t.caller.as_ref().map_or(0, |caller| caller.work);
        let (executed, work) = t.executed_time_and_work(own, full_speed);
        let Some(caller) = &mut t.caller else {
            return;
        };
        let request = &mut caller.request;
        let part = match caller.stage {
            Stage::AwaitInode(_)
            | Stage::Look
            | Stage::Copy(_)
            | Stage::Dirty(_)
            | Stage::Fetch
            | Stage::Ahead(..)
            | Stage::CopyOut(_) => Part::Submission,
            Stage::Resume => Part::Completion,
            Stage::Pause(until) => {
                request.attribute_time_until(Part::Queueing, until);
                return request.attribute_task_wake_up(now, awake_since);
            }
            Stage::Asleep => {
                if let Some(ended) = caller.ended.take() {
                    request.attribute_wait_for_request(&ended);
                } else if let Some(at) = caller.unlocked_at.take() {
                    request.attribute_time_until(Part::Queueing, at);
                }
                return request.attribute_task_wake_up(now, awake_since);
            }
            _ => return,
        };
        request.attribute_work_until(part, now, executed, work);
    }

    /// Takes a call through its stages up to the next action of the task. `None`: the call is over.
    fn next_turn_of_call(&mut self, cpu: CpuId, task: TaskId) -> Option<Turn> {
        let now = self.context.now();
        let io = &self.setup.io;
        loop {
            let t = &mut self.tasks[task];
            let caller = t.caller.as_mut()?;
            let cache = self.cache.as_mut()?;
            match caller.stage {
                Stage::AwaitInode(number) => caller.wait_for(number, Stage::Look),
                Stage::Look => match caller.partial_page_to_read(&cache.pages) {
                    Some(page) => {
                        caller.wait_for(0, Stage::Look);
                        caller.stage = Stage::Issue(page);
                        return Some(Turn::Work(io.submission_work(PAGE)));
                    }
                    None => caller.stage = Stage::Next,
                },
                Stage::Next if caller.left.count > 0 => {
                    let mut count = PIECE;
                    if caller.request.direction == Direction::Write {
                        match cache.pages.count_pages_to_write(caller, task, PIECE) {
                            Ok(most) => count = most,
                            Err(lock) => {
                                caller.wait_for(lock, Stage::Next);
                                continue;
                            }
                        }
                    }
                    let piece = caller.left.take_first_pages(count);
                    caller.stage = Stage::Copy(piece);
                    return Some(Turn::Work(match caller.request.direction {
                        Direction::Read => cache.pages.setup.read_page * piece.count,
                        Direction::Write => cache.pages.begin_write(piece),
                    }));
                }
                Stage::Next if caller.syncs => {
                    caller.left = caller.pages;
                    caller.stage = Stage::WriteBack;
                    self.tag_pages_to_sync(task);
                }
                Stage::Next => return None,
                Stage::Copy(piece) | Stage::Dirty(piece) => {
                    caller.stage = caller.stage_after_piece();
                    if caller.request.direction == Direction::Write {
                        let dirtied = cache.pages.mark_pages_dirty(now, piece);
                        let writer = &mut caller.writer;
                        let until = cache.pages.pause_after_dirtying(now, task, writer, dirtied);
                        self.start_timer_and_flusher_for_dirty_pages(cpu);
                        self.release_page_lock(cpu, task);
                        if let Some(until) = until {
                            return self.pause_writer_until_tick(task, until);
                        }
                    }
                }
                Stage::Pause(_) => caller.stage = caller.stage_after_piece(),
                Stage::WriteBack => return self.next_turn_of_write_back(cpu, task),
                Stage::Issue(pages) => {
                    caller.stage = match caller.awaits {
                        Some(_) => Stage::Settle,
                        None => Stage::WriteBack,
                    };
                    return Some(Turn::Send(pages));
                }
                Stage::Settle => {
                    let awaited = match caller.awaits {
                        Some(number) => (cache.others.contains(&number)
                            || cache.pages.busy.is_pending(number, task))
                        .then_some(number),
                        None => cache.pages.next_write_back_to_await(caller),
                    };
                    let Some(number) = awaited else {
                        caller.deactivated = false;
                        if caller.flushes {
                            return None;
                        } else if caller.awaits.take().is_some() {
                            caller.stage = caller.stage_after_wait;
                            continue;
                        } else if !std::mem::replace(&mut caller.asked_for_commit, true) {
                            caller.stage = Stage::Commit;
                            continue;
                        } else if caller.needs_no_flush || !self.setup.volume.has_volatile_cache() {
                            return None;
                        }
                        (caller.flushes, caller.awaits) = (true, Some(0));
                        caller.stage = Stage::Issue(Pages::none_in_file(caller.file));
                        return Some(Turn::Work(io.flush_submission_work()));
                    };
                    if let Some(work) = io.work_to_leave_run_queue()
                        && !caller.deactivated
                    {
                        caller.deactivated = true;
                        return Some(Turn::Work(work));
                    }
                    caller.lock_waits += u32::from(cache.pages.busy.has_lock(number));
                    cache.waiters.push((number, task));
                    caller.stage = Stage::Asleep;
                    // `jbd2_log_wait_commit()` and `xlog_wait()` sleep without iowait.
                    let iowait = !(cache.journal.as_ref()).is_some_and(|own| own.is_commit(number));
                    return Some(Turn::Sleep { iowait });
                }
                Stage::Asleep => {
                    caller.deactivated = false;
                    caller.stage = Stage::Resume;
                    let first = !(caller.reading.as_mut())
                        .is_some_and(|reading| std::mem::replace(&mut reading.waited, true));
                    return Some(Turn::Work(io.work_after_page_cache_wait(first, true)));
                }
                Stage::Resume => caller.stage = Stage::Settle,
                Stage::Commit | Stage::ForceLog | Stage::WriteBuffer(_) => {
                    if let Some(turn) = self.next_turn_of_commit_wait(cpu, task) {
                        return Some(turn);
                    }
                }
                Stage::Fetch | Stage::Ahead(..) | Stage::CopyOut(_) => {
                    match self.next_turn_of_read(task)? {
                        // A wait has been decided on, which the next stage begins.
                        Turn::Work(0) => {}
                        turn => return Some(turn),
                    }
                }
            }
        }
    }

    /// Holds a writer back until the first tick after a time, since its timer is on the timer wheel.
    fn pause_writer_until_tick(&mut self, task: TaskId, until: u64) -> Option<Turn> {
        let until = self.first_tick_at_or_after(until);
        self.tasks[task].caller.as_mut()?.stage = Stage::Pause(until);
        Some(Turn::Pause(until))
    }

    /// Takes the next pages to write back: for a call from its part of a file, for the flusher from all files.
    fn next_turn_of_write_back(&mut self, cpu: CpuId, task: TaskId) -> Option<Turn> {
        let now = self.context.now();
        let cache = self.cache.as_mut()?;
        let kernel = task == cache.flusher;
        if !cache.admits_write_back(now, task) {
            cache.queue.push_back(task);
            return Some(Turn::Sleep { iowait: true });
        }
        let pages = if kernel {
            cache
                .pages
                .take_next_pages_for_flusher(now, &mut cache.round)
        } else {
            match self.take_pages_to_sync(cpu, task) {
                Err(number) => {
                    self.hand_on_unused_room(cpu);
                    let caller = self.tasks[task].caller.as_mut()?;
                    caller.wait_for(number, Stage::WriteBack);
                    return self.next_turn_of_call(cpu, task);
                }
                Ok(pages) => pages,
            }
        };
        let caller = self.tasks[task].caller.as_mut()?;
        let cache = self.cache.as_mut()?;
        if let Some(pages) = pages {
            caller.taken = cache.pages.begin_write_back(pages);
            caller.stage = Stage::Issue(pages);
            let of_pages = cache.pages.setup.write_back * pages.count;
            let work = self.setup.io.submission_work(pages.count * PAGE) + of_pages;
            return Some(Turn::Work(work));
        }
        self.empty_plug(cpu, task);
        self.hand_on_unused_room(cpu);
        let caller = self.tasks[task].caller.as_mut()?;
        let cache = self.cache.as_mut()?;
        if kernel {
            cache.round.old = false;
            cache.rests = true;
            self.start_write_back_timer_if_dirty(cpu);
            return Some(Turn::Sleep { iowait: false });
        }
        caller.upto = cache.pages.last_request_number();
        caller.left = caller.pages;
        caller.stage = Stage::Settle;
        self.next_turn_of_call(cpu, task)
    }

    /// Submits a request of the page cache: a read of pages, a flush without pages, or a write, by the task's plug.
    fn submit_pages_to_drives(&mut self, cpu: CpuId, task: TaskId, pages: Pages) {
        let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache) else {
            return;
        };
        let flush = pages.count == 0;
        if caller.awaits.is_none() && !flush {
            return self.plug_write_back(cpu, task, pages);
        }
        let number = cache.pages.next_request_number();
        cache.others.push(number);
        cache.pages.remember_cached_pages(pages);
        caller.awaits = Some(number);
        let begun = caller.request.attributed_until();
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
        let direction = if flush {
            Direction::Write
        } else {
            Direction::Read
        };
        let Some(id) = self.create_page_request((cpu, task), (number, pages), direction, begun)
        else {
            return;
        };
        if flush {
            let drives = 0..self.drives.len();
            self.give_pieces_to_drives(id, RequestKind::Flush, drives.map(Piece::for_flush));
        } else {
            self.give_page_request_to_drives(id, RequestKind::Plain, pages);
        }
    }

    /// Creates the request with this number for pages, whose submission began at `begun` and ends now; a flush if there are none.
    /// The flusher thread counts as the requests' task, whoever submits.
    pub(super) fn create_page_request(
        &mut self,
        (cpu, submitter): (CpuId, TaskId),
        (number, pages): (u64, Pages),
        direction: Direction,
        begun: u64,
    ) -> Option<RequestId> {
        let flusher = self.cache.as_ref()?.flusher;
        let origin = if pages.count == 0 {
            RequestOrigin::Flush
        } else {
            RequestOrigin::PageCache
        };
        let place = RequestPlace::InCachedFile {
            file: pages.file,
            byte: pages.start_byte(),
        };
        let whole = Request::new_with_submission_begun(
            (cpu, flusher),
            direction,
            RequestKind::WriteBack,
            pages.count * PAGE,
            begun,
        );
        self.add_page_request(whole, submitter, (number, pages), (origin, place))
    }

    /// Adds the request with this number for pages, whose submission ends now.
    pub(super) fn add_page_request(
        &mut self,
        mut whole: Request,
        submitter: TaskId,
        (number, pages): (u64, Pages),
        (origin, place): (RequestOrigin, RequestPlace),
    ) -> Option<RequestId> {
        let cache = self.cache.as_mut()?;
        let id = self.requests.allocate_request_id();
        cache.requests.insert(id, (number, pages));
        whole.attribute_time_until(Part::Submission, self.context.now());
        let task = whole.task;
        self.requests[id] = whole;
        self.context
            .tell_observer_of_request(RequestStep::Begun { task, submitter });
        self.context.tell_observer_of_request(RequestStep::Issued {
            task,
            submitter,
            request: id,
            read: whole.direction == Direction::Read,
            bytes: whole.bytes,
            origin,
            place,
        });
        Some(id)
    }

    /// Gives a request for pages to the drives that have them; `kind`: how the drives take it.
    pub(super) fn give_page_request_to_drives(
        &mut self,
        id: RequestId,
        kind: RequestKind,
        pages: Pages,
    ) {
        let bytes = pages.count * PAGE;
        if self.drives.len() == 1 {
            let all = Piece { drive: 0, bytes };
            self.give_pieces_to_drives(id, kind, std::iter::once(all));
        } else {
            let pieces = self
                .setup
                .volume
                .split_into_pieces(pages.first * PAGE, bytes);
            self.give_pieces_to_drives(id, kind, pieces);
        }
    }

    /// Ends a request of the page cache after its completion interrupt, and wakes all tasks that waited for it.
    #[cold]
    pub(crate) fn end_page_cache_request(&mut self, cpu: CpuId, id: RequestId) {
        let request = self.requests[id];
        self.requests.free_request_id(id);
        self.context
            .tell_observer_of_request(RequestStep::Delivered { request: id, cpu });
        self.context
            .tell_observer_of_request(RequestStep::Completed { request: id });
        let Some(cache) = &mut self.cache else {
            return;
        };
        let Some((number, pages)) = cache.requests.remove(&id) else {
            return;
        };
        if self.end_journal_request(cpu, number, &request) {
            return;
        }
        let Some(cache) = &mut self.cache else {
            return;
        };
        let is_write_back = request.direction == Direction::Write && pages.count > 0;
        if is_write_back {
            cache.pages.count_written_pages(number, pages);
        } else {
            cache.pages.arrivals.end_arrival(number);
        }
        self.wake_tasks_after_request(cpu, number, &request);
        if is_write_back {
            self.wake_tasks_with_room(cpu);
        }
        self.wake_for_deferred_reads(cpu, number, &request);
    }

    /// Hands on the room for a request that a task has no pages for: no request may be in flight whose end would wake others.
    fn hand_on_unused_room(&mut self, cpu: CpuId) {
        if (self.cache.as_ref()).is_some_and(|cache| !cache.queue.is_empty()) {
            self.wake_tasks_with_room(cpu);
        }
    }

    /// Wakes tasks that wait until fewer write-back requests are in flight, after the end of one.
    fn wake_tasks_with_room(&mut self, cpu: CpuId) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        let has_volatile_cache = self.setup.volume.has_volatile_cache();
        for task in cache.admit_waiting_tasks(self.context.now(), has_volatile_cache) {
            let to = self.choose_cpu_for_woken_task(task, None);
            self.wake_task(Some(cpu), task, to);
        }
    }

    /// Wakes all tasks that waited for a finished request with this number.
    pub(super) fn wake_tasks_after_request(&mut self, cpu: CpuId, number: u64, request: &Request) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        cache.others.retain(|other| *other != number);
        for task in cache.take_waiters(number) {
            let to = self.choose_cpu_for_woken_task(task, None);
            let ipi = self.wake_task(Some(cpu), task, to);
            if let Some(caller) = &mut self.tasks[task].caller {
                let mut ended = *request;
                ended.set_wake_up_delay(ipi);
                caller.ended = Some(ended);
            }
        }
    }

    /// Ends a page cache call, and hands the finished read or write back to its task.
    fn end_page_cache_call(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let t = &mut self.tasks[task];
        let Some(caller) = &mut t.caller else {
            return;
        };
        caller.awaits = None;
        let mut request = caller.request;
        if t.end_fsync_in_progress() {
            let counts_from = t.counts_from();
            if let Some(began) = t.take_start_of_fsync() {
                self.recorder.record_fsync_call(began, now, counts_from);
            }
            return;
        }
        request.attribute_time_until(Part::Submission, now);
        let id = self.requests.allocate_request_id();
        self.requests[id] = request;
        self.context.tell_observer_of_request(RequestStep::Issued {
            task,
            submitter: task,
            request: id,
            read: request.direction == Direction::Read,
            bytes: request.bytes,
            origin: RequestOrigin::Cached,
            place: RequestPlace::Unsettled,
        });
        self.context
            .tell_observer_of_request(RequestStep::Served { request: id });
        self.context
            .tell_observer_of_request(RequestStep::Delivered { request: id, cpu });
        self.tasks[task].add_request_done_by_cache(id);
    }
}
