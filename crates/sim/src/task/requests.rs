//! A task's way with its requests, whatever its kind: submit, sleep, go on with what is completed.

use crate::block::request::RequestKind;
use crate::block::requests::Requests;
use crate::core::basics::{CpuId, Cycles, Direction, TaskId};
use crate::core::observer::{Observer, RequestStep};
use crate::core::parts::Part;
use crate::core::random::Streams;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::setup::Setup;
use crate::task::fio::setup::JobSetup;
use crate::task::state::{Kind, Step, Task};

impl<O: Observer> Engine<'_, O> {
    /// Submits a request whose submission a task has worked for.
    #[inline(always)]
    pub(super) fn submit_request(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        direction: Direction,
        bytes: u64,
    ) {
        let (request, gathers) = self.add_submitted(cpu, task, direction, bytes);
        if gathers {
            self.gather(task, request, bytes);
        } else {
            self.hand_over(request, bytes);
        }
    }

    /// A thread begins to write so many bytes.
    pub(super) fn begin_write(&mut self, cpu: CpuId, task: TaskId, bytes: u64) {
        if let Kind::Thread(thread) = &mut self.tasks[task].kind {
            thread.writes = bytes;
        }
        let work = self.begin_submission(task, bytes);
        self.execute(cpu, Mode::Task, work);
    }

    /// A task begins to submit a request of so many bytes. Returns how much work that is.
    #[inline(always)]
    pub(super) fn begin_submission(&mut self, task: TaskId, bytes: u64) -> Cycles {
        let t = &mut self.tasks[task];
        let io = &self.setup.io;
        let work = match &t.kind {
            Kind::FioProcess(process) => {
                let job = &self.setup.jobs[process.job];
                let mut work = if process.flushing {
                    io.flush_submission()
                } else {
                    io.submission(bytes)
                };
                if process.direction == Some(Direction::Write) {
                    work += job.content_work(bytes);
                }
                if job.submits_alone {
                    work += self.setup.cpu.syscall(t.cpu) + io.asynchronous_submission();
                }
                work
            }
            Kind::Thread(_) | Kind::KernelThread(_) => io.submission(bytes),
        };
        t.begin(Step::Submit, work);
        t.requests.submission = work;
        t.requests.begun = self.context.now();
        self.context.observe_request(RequestStep::Begun { task });
        work
    }

    /// A task has nothing to do but to wait for its requests: it takes itself off the run queue, while the drive works. Returns
    /// how much work that is, if it has not been done.
    #[inline(always)]
    pub(super) fn deactivate(&mut self, task: TaskId) -> Option<Cycles> {
        let work = self.setup.io.deactivation()?;
        let t = &mut self.tasks[task];
        if t.requests.in_flight == 0 || t.requests.deactivated {
            return None;
        }
        t.requests.deactivated = true;
        t.begin(Step::Deactivate, work);
        Some(work)
    }

    /// A task goes on with its completed requests. Returns how much work that is.
    #[inline(always)]
    pub(super) fn resume(&mut self, cpu: CpuId, task: TaskId) -> Cycles {
        let awake_since = self.cpus[cpu].awake_since();
        let t = &mut self.tasks[task];
        let taken = t.requests.completed.len().min(t.requests.most);
        let work = t.resumption(self.setup, &self.requests, taken);
        t.begin(Step::Resume, work);
        let own = &mut t.requests;
        own.slept = false;
        own.deactivated = false;
        own.resumption = work;
        own.taking = taken;
        let (now, requests) = (self.context.now(), &mut self.requests);
        (own.completed).for_first(taken, |request| {
            requests[request].attribute_wake_up(now, awake_since);
        });
        work
    }

    /// A task is back in user space with its completed requests.
    #[inline(always)]
    pub(super) fn finish_requests(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let (executed, work) = t.executed(t.requests.resumption, full_speed);
        let counts_from = t.requests.counts_from;
        for _ in 0..t.requests.taking {
            let Some(request) = t.requests.completed.pop_front() else {
                break;
            };
            let r = &mut self.requests[request];
            r.attribute_work(Part::Completion, now, executed, work);
            if matches!(r.kind, RequestKind::Flush | RequestKind::Synchronous) {
                if let Some(write) = t.end_stretch(r) {
                    self.recorder.finish(&write, now, counts_from);
                }
            } else {
                self.recorder.finish(r, now, counts_from);
            }
            self.requests.remove(request);
            let step = RequestStep::Completed { request };
            self.context.observe_request(step);
        }
        t.requests.in_flight -= t.requests.taking as u32;
    }
}

impl Task {
    /// Settles where its next request lies, whose direction and size are settled. Returns direction and offset.
    pub(crate) fn place_next(
        &mut self,
        jobs: &[JobSetup],
        bytes: u64,
        random: &mut Streams,
    ) -> Option<(Direction, u64)> {
        let Kind::FioProcess(process) = &mut self.kind else {
            return None;
        };
        process.place_next(&jobs[process.job], bytes, random)
    }

    /// The page cache takes its next request, a write or a read. Returns whether the job submits each request alone.
    pub(crate) fn take_cached(
        &mut self,
        jobs: &[JobSetup],
        now: u64,
        random: &mut Streams,
        writes: bool,
    ) -> bool {
        let Kind::FioProcess(process) = &mut self.kind else {
            return false;
        };
        let job = &jobs[process.job];
        process.take_next(job, now, random);
        process.note_cached(writes);
        job.submits_alone
    }

    /// Where on the volume its next request begins.
    pub(crate) fn next_offset(
        &mut self,
        jobs: &[JobSetup],
        direction: Direction,
        bytes: u64,
        random: &mut Streams,
    ) -> u64 {
        match &mut self.kind {
            Kind::FioProcess(process) => {
                process.next_offset(&jobs[process.job], direction, bytes, random)
            }
            Kind::Thread(thread) => thread.next_offset(bytes),
            // What the page cache submits has a place.
            Kind::KernelThread(_) => 0,
        }
    }

    /// The work of going on with its first `taken` completed requests.
    #[inline(always)]
    fn resumption(&self, setup: &Setup, requests: &Requests, taken: usize) -> Cycles {
        let Kind::FioProcess(process) = &self.kind else {
            return setup.io.resume(taken, self.requests.slept) + setup.cpu.syscall(self.cpu);
        };
        let job = &setup.jobs[process.job];
        let mut work = if job.buffered {
            self.copying(setup, requests, taken)
        } else {
            setup.io.resume(taken, self.requests.slept) + setup.cpu.syscall(self.cpu)
        };
        if job.submits_alone {
            work += setup.io.asynchronous_completion();
        }
        work
    }

    /// The same work of a process that uses the page cache.
    #[inline(never)]
    fn copying(&self, setup: &Setup, requests: &Requests, taken: usize) -> Cycles {
        let (mut from_drive, mut pages) = (0, 0);
        for id in self.requests.completed.iter().take(taken) {
            let request = &requests[*id];
            // What did not go to the drive has been copied.
            if request.kind != RequestKind::Cached {
                from_drive += 1;
                pages += setup.io.page_cache(request.bytes);
            }
        }
        let slept = self.requests.slept && from_drive > 0;
        setup.io.resume(from_drive, slept) + setup.cpu.syscall(self.cpu) + pages
    }
}
