//! How a task of any kind handles its requests: submits them, sleeps, and takes back completed requests.

use crate::block::request::{Request, RequestKind};
use crate::block::requests::Requests;
use crate::core::basics::{CpuId, Cycles, Direction, RequestId, TaskId};
use crate::core::observer::{Observer, RequestPlace, RequestStep};
use crate::core::parts::Part;
use crate::core::random::Streams;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::observe::recorder::NO_JOB;
use crate::setup::Setup;
use crate::task::fio::helpers::HAND_OVER_CYCLES;
use crate::task::fio::setup::JobSetup;
use crate::task::rtapp::state::{ThreadIo, ThreadIoKind};
use crate::task::state::{Kind, Step, Task};

impl<O: Observer> Engine<'_, O> {
    /// Submits a request, or puts it into a batch, after its task has done the work of the submission. Returns its number.
    #[inline(always)]
    pub(super) fn submit_request(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        direction: Direction,
        bytes: u64,
    ) -> RequestId {
        let (request, gathers) = self.create_submitted_request(cpu, task, direction, bytes);
        if gathers {
            self.gather_into_batch(task, request, bytes);
        } else {
            self.hand_request_to_drives(request, bytes);
        }
        request
    }

    /// Starts a thread's work to submit a request.
    pub(super) fn begin_request_of_thread(&mut self, cpu: CpuId, task: TaskId, io: ThreadIo) {
        let now = self.context.now();
        if let Kind::Thread(thread) = &mut self.tasks[task].kind {
            thread.io = io;
            if io.kind == ThreadIoKind::Flush {
                thread.flush_began = Some(now);
            }
        }
        let work = self.begin_submission(task, io.bytes);
        self.start_work(cpu, Mode::Task, work);
    }

    /// Begins a task's submission of a request of so many bytes. Returns the work of the submission.
    #[inline(always)]
    pub(super) fn begin_submission(&mut self, task: TaskId, bytes: u64) -> Cycles {
        let t = &self.tasks[task];
        let io = &self.setup.io;
        let mut leaves_submission = false;
        let mut is_handed_over = false;
        let mut work = match &t.kind {
            Kind::FioProcess(process) => {
                let job = &self.setup.jobs[process.job];
                is_handed_over = !process.flushing && job.hands_over_request(process.submitted);
                let mut work = if process.flushing {
                    io.flush_submission_work()
                } else if is_handed_over {
                    HAND_OVER_CYCLES
                } else {
                    io.submission_work(bytes)
                };
                if process.direction == Some(Direction::Write) {
                    work += job.work_on_written_data(bytes);
                }
                if let (Some(index), false) = (process.submitter, process.flushing) {
                    // The kernel thread does the rest.
                    leaves_submission = true;
                    work -= io.submission_work(bytes);
                    let system_call =
                        self.setup.cpu.extra_syscall_work(t.cpu) + io.async_submit_syscall_work();
                    work += self.workload.submitters[index].wake_up_work(system_call);
                } else if job.submits_alone && !(is_handed_over && job.submits_by_threads()) {
                    work +=
                        self.setup.cpu.extra_syscall_work(t.cpu) + io.async_submit_syscall_work();
                }
                work
            }
            Kind::FioHelper(helper) => {
                let job = &self.setup.jobs[helper.job];
                let mut work = io.submission_work(bytes)
                    + io.wake_up_work(t.step == Step::Wait, helper.is_user_thread());
                if job.submits_alone && job.submits_by_threads() {
                    work +=
                        self.setup.cpu.extra_syscall_work(t.cpu) + io.async_submit_syscall_work();
                }
                work
            }
            Kind::Thread(thread) if thread.io.kind == ThreadIoKind::Flush => {
                io.flush_submission_work()
            }
            Kind::Thread(_) | Kind::Server(_) | Kind::KernelThread(_) => io.submission_work(bytes),
        };
        let submits = !(leaves_submission || is_handed_over);
        if io.doorbell_work() > 0 && submits && self.drives_need_no_doorbell(t.cpu) {
            work -= io.doorbell_work();
        }
        let t = &mut self.tasks[task];
        t.begin_step(Step::Submit, work);
        t.requests.submission = work;
        t.requests.begun = self.context.now();
        if !is_handed_over {
            self.context.tell_observer_of_request(RequestStep::Begun {
                task,
                submitter: task,
            });
        }
        work
    }

    /// A task has nothing to do but to wait for its requests: it takes itself off the run queue, while the drive works. Returns
    /// how much work that is, if it has not been done.
    #[inline(always)]
    pub(super) fn begin_leaving_run_queue(&mut self, task: TaskId) -> Option<Cycles> {
        let work = self.setup.io.work_to_leave_run_queue()?;
        let t = &mut self.tasks[task];
        if t.requests.in_flight == 0 || t.requests.deactivated {
            return None;
        }
        t.requests.deactivated = true;
        t.begin_step(Step::Deactivate, work);
        Some(work)
    }

    /// Begins a task's resumption with its completed requests, up to the most it takes at once. Returns the work of that.
    #[inline(always)]
    pub(super) fn begin_resumption_with_completed(&mut self, cpu: CpuId, task: TaskId) -> Cycles {
        let awake_since = self.cpus[cpu].awake_since();
        let t = &mut self.tasks[task];
        let taken = t.requests.completed.len().min(t.requests.most);
        let work = t.resumption_work(self.setup, &self.requests, taken);
        t.begin_step(Step::Resume, work);
        let own = &mut t.requests;
        own.slept = false;
        own.deactivated = false;
        own.resumption = work;
        own.taking = taken;
        let (now, requests) = (self.context.now(), &mut self.requests);
        (own.completed).for_each_of_first(taken, |request| {
            requests[request].attribute_task_wake_up(now, awake_since);
        });
        work
    }

    /// Takes back the completed requests with which a task is in user space again, and shows each to `follow`. No latency is
    /// recorded: the requests belong to something larger.
    pub(super) fn take_back_requests(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        mut follow: impl FnMut(RequestId, &Request),
    ) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let (executed, work) = t.executed_time_and_work(t.requests.resumption, full_speed);
        for _ in 0..std::mem::take(&mut t.requests.taking) {
            let Some(request) = t.requests.completed.pop_front() else {
                break;
            };
            t.requests.in_flight -= 1;
            let r = &mut self.requests[request];
            r.attribute_work_until(Part::Completion, now, executed, work);
            follow(request, r);
            self.requests.free_request_id(request);
            let step = RequestStep::Completed { request };
            self.context.tell_observer_of_request(step);
        }
    }

    /// Finishes the completed requests with which a task is back in user space: records their latencies.
    #[inline(always)]
    pub(super) fn finish_taken_requests(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let (executed, work) = t.executed_time_and_work(t.requests.resumption, full_speed);
        let counts_from = t.requests.counts_from;
        let job = t.fio_job_number().unwrap_or(NO_JOB);
        let mut took_flush = false;
        for _ in 0..t.requests.taking {
            let Some(request) = t.requests.completed.pop_front() else {
                break;
            };
            let r = &mut self.requests[request];
            r.attribute_work_until(Part::Completion, now, executed, work);
            if matches!(r.kind, RequestKind::Flush | RequestKind::Synchronous) {
                took_flush |= r.kind == RequestKind::Flush;
                if let Some(write) = t.end_flush_or_write_before_flush(r) {
                    self.recorder
                        .record_finished_request(&write, now, counts_from, job);
                }
            } else {
                self.recorder
                    .record_finished_request(r, now, counts_from, job);
            }
            if t.requests.reports_ends {
                let (ended, latency) = ((request, r.direction, r.bytes), r.latency_so_far(now));
                t.note_ended_request(ended, latency, now);
            }
            self.requests.free_request_id(request);
            let step = RequestStep::Completed { request };
            self.context.tell_observer_of_request(step);
        }
        t.requests.in_flight -= t.requests.taking as u32;
        // A fio process has nothing in flight beside its flush; a thread of given steps may have.
        if took_flush
            && (t.requests.in_flight == 0 || matches!(t.kind, Kind::Thread(_)))
            && let Some(began) = t.take_start_of_fsync()
        {
            self.recorder.record_fsync_call(began, now, counts_from);
        }
        if t.requests.reports_ends {
            self.follow_ended_requests(cpu, task);
        }
    }
}

impl Task {
    /// Number of the fio job that the task works for, in the order of the file; `None` for other tasks.
    fn fio_job_number(&self) -> Option<usize> {
        match &self.kind {
            Kind::FioProcess(process) => Some(process.job),
            Kind::FioHelper(helper) => Some(helper.job),
            _ => None,
        }
    }

    /// Settles the place of the task's next request, of settled direction and size. Returns direction and offset in bytes.
    pub(crate) fn settle_place_of_next_request(
        &mut self,
        jobs: &[JobSetup],
        bytes: u64,
        random: &mut Streams,
    ) -> Option<(Direction, u64)> {
        let Kind::FioProcess(process) = &mut self.kind else {
            return None;
        };
        process.settle_place_of_next_request(&jobs[process.job], bytes, random)
    }

    /// Counts the task's next request as done by the page cache. Returns whether the job submits each request alone.
    pub(crate) fn take_next_request_as_cached(
        &mut self,
        jobs: &[JobSetup],
        random: &mut Streams,
        is_write: bool,
    ) -> bool {
        let Kind::FioProcess(process) = &mut self.kind else {
            return false;
        };
        let job = &jobs[process.job];
        let (direction, bytes) = process.take_next_request(job, random);
        process.count_cached_request(is_write);
        if job.read_back.is_some() {
            process.note_cached_request(direction, bytes);
        }
        job.submits_alone
    }

    /// The place of the request that the task has just submitted, as far as the place is settled.
    pub(crate) fn place_of_submitted_request(&self) -> RequestPlace {
        let byte = match &self.kind {
            Kind::FioProcess(process) => process.settled_offset(),
            Kind::Thread(thread) => thread.io.offset,
            Kind::FioHelper(_) | Kind::Server(_) | Kind::KernelThread(_) => None,
        };
        byte.map_or(RequestPlace::Unsettled, RequestPlace::InOwnFile)
    }

    /// Byte on the volume where the task's next request begins.
    pub(crate) fn offset_of_next_request(
        &mut self,
        jobs: &[JobSetup],
        direction: Direction,
        bytes: u64,
        random: &mut Streams,
    ) -> u64 {
        match &mut self.kind {
            Kind::FioProcess(process) => {
                process.offset_of_next_request(&jobs[process.job], direction, bytes, random)
            }
            Kind::FioHelper(helper) => helper.offset(),
            Kind::Thread(thread) => thread.offset_of_next_request(bytes),
            Kind::Server(thread) => thread.offset_of_next_call(bytes, random),
            // Requests of the page cache have their place already.
            Kind::KernelThread(_) => 0,
        }
    }

    /// Work in cycles of the task's resumption with its first `taken` completed requests.
    #[inline(always)]
    fn resumption_work(&self, setup: &Setup, requests: &Requests, taken: usize) -> Cycles {
        let job = match &self.kind {
            Kind::FioProcess(process) => &setup.jobs[process.job],
            Kind::FioHelper(helper) => &setup.jobs[helper.job],
            Kind::Thread(thread) if thread.uses_page_cache => {
                let slept = self.requests.slept;
                return setup.io.resumption_work(usize::from(slept), slept);
            }
            Kind::Thread(_) | Kind::KernelThread(_) => {
                return setup.io.resumption_work(taken, self.requests.slept)
                    + setup.cpu.extra_syscall_work(self.cpu);
            }
            Kind::Server(thread) => {
                let copied = self.requests.completed.iter().take(taken);
                let pages = copied.map(|id| setup.io.buffered_read_page_work(requests[*id].bytes));
                let copying: Cycles = if thread.copied { pages.sum() } else { 0 };
                return setup.io.resumption_work(taken, self.requests.slept)
                    + setup.cpu.extra_syscall_work(self.cpu)
                    + copying;
            }
        };
        let mut work = if job.buffered {
            self.buffered_resumption_work(setup, requests, taken, job.reads_again)
        } else {
            setup.io.resumption_work(taken, self.requests.slept)
                + setup.cpu.extra_syscall_work(self.cpu)
        };
        if job.submits_alone {
            work += setup.io.async_reap_syscall_work();
        }
        if self.requests.polled {
            // Whoever polls does what the completion interrupt does otherwise.
            work += setup.io.completion_interrupt_work(false) * taken as Cycles;
        }
        work
    }

    /// Work in cycles of the resumption of a process that reads through the page cache, pages included.
    #[inline(never)]
    fn buffered_resumption_work(
        &self,
        setup: &Setup,
        requests: &Requests,
        taken: usize,
        reads_again: bool,
    ) -> Cycles {
        let (mut from_drive, mut pages) = (0, 0);
        for id in self.requests.completed.iter().take(taken) {
            let request = &requests[*id];
            // Requests that the page cache served have been copied already.
            if request.kind != RequestKind::Cached {
                from_drive += 1;
                pages += setup.io.buffered_read_page_work(request.bytes);
                if reads_again && request.direction == Direction::Read {
                    pages += setup.io.repeated_page_cache_read_work();
                }
            }
        }
        let slept = self.requests.slept && from_drive > 0;
        setup.io.resumption_work(from_drive, slept) + setup.cpu.extra_syscall_work(self.cpu) + pages
    }
}
