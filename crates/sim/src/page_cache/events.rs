//! Writes into the page cache, and their way to the drives: by request from a process, or by the kernel.

use std::collections::{BTreeMap, VecDeque};

use wakepath_policies::psd::Grant;

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, RequestId, TaskId, Timer};
use crate::core::observer::{Observer, RequestOrigin, RequestStep};
use crate::core::parts::Part;
use crate::cpu::phase::Mode;
use crate::drive::Piece;
use crate::engine::Engine;
use crate::page_cache::state::{LOOK_EVERY, PAGE, PageCache, Pages, Round, Stage};
use crate::page_cache::write_back::WriteBack;
use crate::task::state::{Step, Task};

/// Pages copied between two looks at the limits for dirty pages.
const PIECE: u64 = 256;

/// Requests that have to end before tasks go on that wait for free depth (`wbt_rqw_done()`, Linux 6.12).
const FREE_AT_LEAST: usize = 2;

/// A task's next action in a call.
enum Turn {
    Work(Cycles),
    /// Be held back until a time.
    Pause(u64),
    Sleep {
        iowait: bool,
    },
    /// Submit a request to read or write these pages; without pages: a flush.
    Send(Pages),
    /// Return.
    End,
}

/// A task's state after a part of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallTurn {
    /// The task works on the next part.
    Works,
    /// The task sleeps, and the CPU is free.
    Sleeps,
    /// The call is over.
    Over,
}

impl<O: Observer> Engine<'_, O> {
    /// Makes the page cache, if any job writes into it, and the kernel's flusher thread.
    pub(crate) fn start_write_back(&mut self) {
        let Some(setup) = self.setup.page_cache else {
            return;
        };
        let flusher = self.tasks.len();
        self.tasks.push(Task::flusher());
        self.cache = Some(Box::new(WriteBack {
            pages: PageCache::new(setup),
            flusher,
            round: Round::default(),
            rests: true,
            timer: false,
            requests: BTreeMap::new(),
            others: Vec::new(),
            waiters: Vec::new(),
            queue: VecDeque::new(),
        }));
    }

    /// A job is about to do an I/O with `bytes`. Returns the first work in the system call, unless the I/O goes to the
    /// drive.
    #[inline(never)]
    pub(crate) fn begin_call(&mut self, cpu: CpuId, task: TaskId, bytes: u64) -> Option<Cycles> {
        let jobs = &self.setup.jobs;
        let t = &mut self.tasks[task];
        let (direction, place) = t.place_next(jobs, bytes, self.context.random())?;
        let caller = t.caller.as_ref()?;
        let offset = caller.base.saturating_add(place);
        let pages = Pages::covering(caller.file, offset, bytes);
        let cache = self.cache.as_mut()?;
        if direction == Direction::Read && !cache.pages.has(pages) {
            cache.pages.insert(pages);
            return None;
        }
        let writes = direction == Direction::Write;
        let now = self.context.now();
        let submits_alone = t.take_cached(jobs, now, self.context.random(), writes);
        let mut work = self.setup.page_cache?.call + self.setup.cpu.syscall(cpu);
        if submits_alone {
            work += self.setup.io.asynchronous_submission();
        }
        let caller = t.caller.as_mut()?;
        caller.begin(Stage::Look, pages);
        caller.syncs = writes && caller.always_syncs;
        let reads_parts = writes && caller.reads_parts;
        caller.parts = [offset, offset + bytes].map(|at| reads_parts && !at.is_multiple_of(PAGE));
        let kind = RequestKind::Cached;
        caller.request = Request::begun((cpu, task), direction, kind, bytes, self.context.now());
        caller.work = work;
        t.begin(Step::Call, work);
        self.context.observe_request(RequestStep::Begun { task });
        Some(work)
    }

    /// A job writes back its file's dirty pages. Returns the first work.
    #[cold]
    pub(crate) fn begin_write_back(&mut self, cpu: CpuId, task: TaskId) -> Cycles {
        let work = self.setup.cpu.syscall(cpu);
        let t = &mut self.tasks[task];
        if let Some(caller) = &mut t.caller {
            caller.begin(Stage::WriteBack, Pages::all(caller.file));
            caller.syncs = true;
            let (write, kind) = (Direction::Write, RequestKind::Cached);
            caller.request = Request::begun((cpu, task), write, kind, 0, self.context.now());
        }
        t.begin(Step::Call, work);
        work
    }

    /// A task has finished a part of a call, or was woken in the call. Goes on with the call.
    #[inline(never)]
    pub(crate) fn continue_call(&mut self, cpu: CpuId, task: TaskId) -> CallTurn {
        self.attribute_stage(cpu, task);
        loop {
            let turn = self.next_stage(cpu, task).unwrap_or(Turn::End);
            let t = &mut self.tasks[task];
            match turn {
                Turn::Work(work) => {
                    t.begin(Step::Call, work);
                    if let Some(caller) = &mut t.caller {
                        caller.work = work;
                    }
                    self.execute(cpu, Mode::Task, work);
                    return CallTurn::Works;
                }
                Turn::Pause(until) => {
                    t.begin(Step::Call, 0);
                    self.start_wheel_timer(cpu, until, Timer::Task(task));
                    self.sleep(cpu, task, true);
                    return CallTurn::Sleeps;
                }
                Turn::Sleep { iowait } => {
                    t.begin(Step::Call, 0);
                    self.sleep(cpu, task, iowait);
                    return CallTurn::Sleeps;
                }
                Turn::Send(pages) => self.send_pages(cpu, task, pages),
                Turn::End => {
                    self.end_call(cpu, task);
                    return CallTurn::Over;
                }
            }
        }
    }

    /// The time for a finished part belongs to the call's read or write.
    fn attribute_stage(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let c = &self.cpus[cpu];
        let (awake_since, full_speed) = (c.awake_since(), self.domains[c.domain].full_speed());
        let t = &mut self.tasks[task];
        let own = t.caller.as_ref().map_or(0, |caller| caller.work);
        let (executed, work) = t.executed(own, full_speed);
        let Some(caller) = &mut t.caller else {
            return;
        };
        let request = &mut caller.request;
        let part = match caller.stage {
            Stage::Look | Stage::Copy(_) => Part::Submission,
            Stage::Resume => Part::Completion,
            Stage::Pause(until) => {
                request.attribute(Part::Queueing, until);
                return request.attribute_wake_up(now, awake_since);
            }
            Stage::Asleep => {
                if let Some(ended) = caller.ended.take() {
                    request.attribute_awaited(&ended);
                }
                return request.attribute_wake_up(now, awake_since);
            }
            _ => return,
        };
        request.attribute_work(part, now, executed, work);
    }

    /// Goes on with a call. `None`: the call is over.
    fn next_stage(&mut self, cpu: CpuId, task: TaskId) -> Option<Turn> {
        let now = self.context.now();
        let io = &self.setup.io;
        loop {
            let t = &mut self.tasks[task];
            let caller = t.caller.as_mut()?;
            let cache = self.cache.as_mut()?;
            match caller.stage {
                Stage::Look => match caller.part_to_read(&cache.pages) {
                    Some(page) => {
                        caller.awaits = Some(0);
                        caller.stage = Stage::Issue(page);
                        return Some(Turn::Work(io.submission(PAGE)));
                    }
                    None => caller.stage = Stage::Next,
                },
                Stage::Next if caller.left.count > 0 => {
                    let piece = caller.left.split(PIECE);
                    caller.stage = Stage::Copy(piece);
                    return Some(Turn::Work(cache.pages.setup.page * piece.count));
                }
                Stage::Next if caller.syncs => {
                    caller.left = caller.pages;
                    caller.stage = Stage::WriteBack;
                }
                Stage::Next => return None,
                Stage::Copy(piece) => {
                    caller.stage = Stage::Next;
                    if caller.request.direction == Direction::Write {
                        let dirtied = cache.pages.write(now, piece);
                        let writer = &mut caller.writer;
                        let until = cache.pages.balance(now, task, writer, dirtied);
                        self.note_dirty(cpu);
                        if let Some(until) = until {
                            return self.hold_back(task, until);
                        }
                    }
                }
                Stage::Pause(_) => caller.stage = Stage::Next,
                Stage::WriteBack => return self.write_back(cpu, task),
                Stage::Issue(pages) => {
                    caller.stage = match caller.awaits {
                        Some(_) => Stage::Settle,
                        None => Stage::WriteBack,
                    };
                    return Some(Turn::Send(pages));
                }
                Stage::Settle => {
                    let awaited = match caller.awaits {
                        Some(number) => cache.others.contains(&number).then_some(number),
                        None => cache.pages.awaited(caller.file, caller.upto),
                    };
                    let Some(number) = awaited else {
                        caller.deactivated = false;
                        if caller.flushes {
                            return None;
                        } else if caller.awaits.take().is_some() {
                            caller.stage = Stage::Look;
                            continue;
                        } else if !self.setup.volume.has_volatile_cache() {
                            return None;
                        }
                        (caller.flushes, caller.awaits) = (true, Some(0));
                        caller.stage = Stage::Issue(Pages::none(caller.file));
                        return Some(Turn::Work(io.flush_submission()));
                    };
                    if let Some(work) = io.deactivation()
                        && !caller.deactivated
                    {
                        caller.deactivated = true;
                        return Some(Turn::Work(work));
                    }
                    cache.waiters.push((number, task));
                    caller.stage = Stage::Asleep;
                    return Some(Turn::Sleep { iowait: true });
                }
                Stage::Asleep => {
                    caller.deactivated = false;
                    caller.stage = Stage::Resume;
                    return Some(Turn::Work(io.wake_and_resume()));
                }
                Stage::Resume => caller.stage = Stage::Settle,
            }
        }
    }

    /// A writer sleeps until the next tick after a time, since the timer is on the timer wheel.
    fn hold_back(&mut self, task: TaskId, until: u64) -> Option<Turn> {
        let until = self.tick_from(until);
        self.tasks[task].caller.as_mut()?.stage = Stage::Pause(until);
        Some(Turn::Pause(until))
    }

    /// Looks for pages to write back: in the call's part of the file, or for the kernel, in all files.
    fn write_back(&mut self, cpu: CpuId, task: TaskId) -> Option<Turn> {
        let now = self.context.now();
        let t = &mut self.tasks[task];
        let caller = t.caller.as_mut()?;
        let cache = self.cache.as_mut()?;
        let kernel = task == cache.flusher;
        if cache.pages.in_flight >= cache.pages.setup.depth() {
            cache.queue.push_back(task);
            return Some(Turn::Sleep { iowait: true });
        }
        let pages = if kernel {
            cache.pages.take_next(now, &mut cache.round)
        } else {
            let left = &mut caller.left;
            let pages = cache.pages.take(left.file, left.first, left.end());
            if let Some(pages) = pages {
                left.split(pages.end() - left.first);
            }
            pages
        };
        if let Some(pages) = pages {
            caller.stage = Stage::Issue(pages);
            let of_pages = cache.pages.setup.write_back * pages.count;
            let work = self.setup.io.submission(pages.count * PAGE) + of_pages;
            return Some(Turn::Work(work));
        }
        if kernel {
            cache.round.old = false;
            cache.rests = true;
            self.arm_write_back(cpu);
            return Some(Turn::Sleep { iowait: false });
        }
        caller.upto = cache.pages.last_request();
        caller.stage = Stage::Settle;
        self.next_stage(cpu, task)
    }

    /// Hands the page cache's request to the drives.
    fn send_pages(&mut self, cpu: CpuId, task: TaskId, pages: Pages) {
        self.grant_lease(cpu, Grant::grants_on_issue);
        let now = self.context.now();
        let id = self.requests.add();
        let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache) else {
            return;
        };
        let flush = pages.count == 0;
        let read = caller.awaits.is_some() && !flush;
        let number = if read || flush {
            let own = cache.pages.number();
            cache.others.push(own);
            cache.pages.insert(pages);
            caller.awaits = Some(own);
            own
        } else {
            cache.pages.submitted(pages)
        };
        cache.requests.insert(id, (number, pages));
        let flusher = cache.flusher;
        // The waiting task's latency is attributed up to then.
        let begun = if task == flusher {
            now
        } else {
            caller.request.attributed_until()
        };
        let bytes = pages.count * PAGE;
        let direction = if read {
            Direction::Read
        } else {
            Direction::Write
        };
        let kind = RequestKind::WriteBack;
        let mut whole = Request::begun((cpu, flusher), direction, kind, bytes, begun);
        whole.attribute(Part::Submission, now);
        self.requests[id] = whole;
        self.context
            .observe_request(RequestStep::Begun { task: flusher });
        self.context.observe_request(RequestStep::Issued {
            task: flusher,
            request: id,
            read,
            bytes,
            origin: if flush {
                RequestOrigin::Flush
            } else {
                RequestOrigin::PageCache
            },
        });
        if flush {
            let drives = 0..self.drives.len();
            self.give_pieces(id, RequestKind::Flush, drives.map(Piece::flush));
        } else if self.drives.len() == 1 {
            let all = Piece { drive: 0, bytes };
            self.give_pieces(id, RequestKind::Plain, std::iter::once(all));
        } else {
            let pieces = self.setup.volume.pieces(pages.first * PAGE, bytes);
            self.give_pieces(id, RequestKind::Plain, pieces);
        }
    }

    /// The completion interrupt for the page cache's request has been served.
    #[cold]
    pub(crate) fn end_page_request(&mut self, cpu: CpuId, id: RequestId) {
        let request = self.requests[id];
        self.requests.remove(id);
        self.context
            .observe_request(RequestStep::Delivered { request: id, cpu });
        self.context
            .observe_request(RequestStep::Completed { request: id });
        let Some(cache) = &mut self.cache else {
            return;
        };
        let Some((number, pages)) = cache.requests.remove(&id) else {
            return;
        };
        if request.direction == Direction::Read || pages.count == 0 {
            cache.others.retain(|other| *other != number);
        } else {
            cache.pages.written(number, pages);
        }
        let waiting = cache
            .waiters
            .extract_if(.., |(awaited, _)| *awaited == number);
        let woken: Vec<TaskId> = waiting.map(|(_, task)| task).collect();
        let depth = cache.pages.setup.depth();
        let freed = cache.pages.in_flight + FREE_AT_LEAST.min(depth) <= depth;
        let queued = if freed {
            std::mem::take(&mut cache.queue)
        } else {
            VecDeque::new()
        };
        for task in woken {
            let to = self.choose_cpu(task, None);
            let ipi = self.wake_task(Some(cpu), task, to);
            if let Some(caller) = &mut self.tasks[task].caller {
                let mut ended = request;
                ended.delay_wake_up(ipi);
                caller.ended = Some(ended);
            }
        }
        for task in queued {
            let to = self.choose_cpu(task, None);
            self.wake_task(Some(cpu), task, to);
        }
    }

    /// Pages are dirty: the kernel's timer runs, and with many dirty pages the flusher.
    fn note_dirty(&mut self, cpu: CpuId) {
        self.arm_write_back(cpu);
        let Some(cache) = &mut self.cache else {
            return;
        };
        if cache.rests && cache.pages.has_much_to_write() {
            self.wake_flusher(cpu);
        }
    }

    fn wake_flusher(&mut self, cpu: CpuId) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        cache.rests = false;
        let flusher = cache.flusher;
        let to = self.choose_cpu(flusher, Some((cpu, false)));
        self.wake_task(Some(cpu), flusher, to);
    }

    /// Starts the kernel's timer, unless running, if any page is dirty.
    fn arm_write_back(&mut self, cpu: CpuId) {
        let at = self.tick_from(self.context.now() + LOOK_EVERY);
        if let Some(cache) = &mut self.cache
            && !cache.timer
            && cache.pages.dirty() > 0
        {
            cache.timer = true;
            self.start_wheel_timer(cpu, at, Timer::WriteBack);
        }
    }

    /// The kernel's timer has expired.
    #[cold]
    pub(crate) fn look_for_old_pages(&mut self, cpu: CpuId) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        cache.timer = false;
        if cache.pages.dirty() > 0 {
            cache.round.old = true;
            if cache.rests {
                self.wake_flusher(cpu);
            }
        }
    }

    /// A call is over.
    fn end_call(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let t = &mut self.tasks[task];
        let Some(caller) = &mut t.caller else {
            return;
        };
        caller.awaits = None;
        let mut request = caller.request;
        if t.end_fsync() {
            return;
        }
        request.attribute(Part::Submission, now);
        let id = self.requests.add();
        self.requests[id] = request;
        self.context.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: request.direction == Direction::Read,
            bytes: request.bytes,
            origin: RequestOrigin::Cached,
        });
        self.context
            .observe_request(RequestStep::Served { request: id });
        self.context
            .observe_request(RequestStep::Delivered { request: id, cpu });
        self.tasks[task].add_cached(id);
    }
}
