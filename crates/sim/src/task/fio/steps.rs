//! How a fio job's process decides what to do next: submit, take back, pause, flush, end.

use wakepath_policies::psd::LeaseTrigger;

use crate::core::basics::{CpuId, Cycles, Direction, TaskId, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::page_cache::events::CallTurn;
use crate::task::events::TaskTurn;
use crate::task::fio::setup::JobSetup;
use crate::task::state::{Kind, Step, Task};

/// What a fio process does next.
pub(super) enum Plan {
    /// Do work of so many cycles.
    Work(Cycles),
    /// Spin, looking at the clock, until this time in ns.
    Spin(u64),
    /// Poll until enough requests have completed.
    Poll,
    /// Sleep until a completed request or a timer wakes the process.
    Sleep { iowait: bool },
    /// End, since all that the job asks for is done.
    End,
}

/// Longest time in ns between two decisions of a process that polls.
const LONGEST_POLL: u64 = 1_000_000_000;

/// Why a process does not begin the next request.
enum Delay {
    /// A pause (think time) is due.
    Pause,
    /// The rates of the job hold the request back until this time.
    Until(u64),
    /// The job is ahead in its flow, and asks again after so many ns; 0: it spins.
    Flow(u64),
}

/// A process's next request, taken to be submitted.
struct TakenRequest {
    /// Index of the job.
    job: usize,
    /// Number among the requests of the process, from 0.
    number: u64,
    direction: Direction,
    bytes: u64,
}

/// How long a process spins before it looks again whether it is ahead in its flow, in ns. fio looks each time round its loop, some
/// 100 ns; the model's step is coarser, so that it costs fewer events.
const FLOW_SPIN: u64 = 1_000;

impl<O: Observer> Engine<'_, O> {
    /// Follows up a fio process's finished segment of work, and begins its next step.
    #[inline(always)]
    pub(in crate::task) fn end_fio_work_segment(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let t = &self.tasks[task];
        let Kind::FioProcess(process) = &t.kind else {
            return TaskTurn::Free;
        };
        match t.step {
            Step::Submit => {
                let flushing = process.flushing;
                let job = &self.setup.jobs[process.job];
                if !flushing && job.hands_over_request(process.submitted) {
                    self.hand_over_next_request(cpu, task);
                    return self.begin_next_step(cpu, task);
                }
                self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
                if flushing {
                    self.send_flush_to_all_drives(cpu, task);
                } else {
                    self.submit_next_request(cpu, task);
                }
            }
            Step::Resume => {
                self.finish_taken_requests(cpu, task);
                if self.has_unreturned_write(task) {
                    return self.begin_flush_after_write(cpu, task);
                }
            }
            Step::Spin => return self.sleep_for_rest_of_pause(cpu, task),
            Step::Call => match self.continue_page_cache_call(cpu, task) {
                CallTurn::Works => return TaskTurn::Busy,
                CallTurn::Sleeps => return TaskTurn::Free,
                CallTurn::Over => {}
            },
            // A process that woke up before its pause is over sleeps or spins again.
            Step::Think if process.end_of_pause() > self.context.now() => {
                return self.sleep_for_rest_of_pause(cpu, task);
            }
            Step::Deactivate
            | Step::Think
            | Step::Poll
            | Step::Wait
            | Step::Thread
            | Step::Worker => {}
        }
        self.begin_next_step(cpu, task)
    }

    /// Whether a process's write is on the media while its system call still has to flush the drive.
    #[inline(always)]
    fn has_unreturned_write(&self, task: TaskId) -> bool {
        matches!(&self.tasks[task].kind, Kind::FioProcess(process) if process.has_unreturned_write())
    }

    /// Takes a process's next request, after the work of handing the request on.
    #[inline(always)]
    fn take_next_request_of_process(&mut self, task: TaskId) -> Option<TakenRequest> {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return None;
        };
        let job = &self.setup.jobs[process.job];
        let (direction, bytes) = process.take_next_request(job, self.context.random_streams());
        Some(TakenRequest {
            job: process.job,
            number: process.submitted,
            direction,
            bytes,
        })
    }

    /// Submits a process's next request, after the work of the submission.
    #[inline(always)]
    fn submit_next_request(&mut self, cpu: CpuId, task: TaskId) {
        let Some(taken) = self.take_next_request_of_process(task) else {
            return;
        };
        let TakenRequest {
            direction, bytes, ..
        } = taken;
        let job = &self.setup.jobs[taken.job];
        let data = if job.request_has_data(taken.number) {
            bytes
        } else {
            0
        };
        if job.polling.thread.is_some() {
            return self.submit_by_kernel_thread(cpu, task, direction, data);
        }
        let is_watched = job.read_back.is_some() || job.checks_by_helpers() || job.replay.is_some();
        let request = self.submit_request(cpu, task, direction, data);
        if is_watched && let Kind::FioProcess(process) = &mut self.tasks[task].kind {
            process.note_submitted_request(request, direction, bytes);
        }
    }

    /// Hands a process's next request to a helper, after the work of that.
    #[inline(never)]
    fn hand_over_next_request(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(taken) = self.take_next_request_of_process(task) {
            self.hand_request_to_helper(cpu, task, taken.direction, taken.bytes);
        }
    }

    /// Leaves a process's request to the kernel thread that submits for it.
    #[cold]
    fn submit_by_kernel_thread(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        direction: Direction,
        bytes: u64,
    ) {
        if let Kind::FioProcess(process) = &self.tasks[task].kind
            && let Some(index) = process.submitter
        {
            self.put_request_into_ring((cpu, task), index, direction, bytes);
        }
    }

    /// Ends the kernel thread that submits for a process, if there is one.
    #[cold]
    fn end_submitter_of_process(&mut self, task: TaskId) {
        if let Kind::FioProcess(process) = &self.tasks[task].kind
            && let Some(index) = process.submitter
        {
            self.end_submitter(index);
        }
    }

    /// Decides what a fio process does next, and begins to do so.
    pub(in crate::task) fn begin_next_step(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        if self.begin_due_deferred_read(cpu, task) {
            return TaskTurn::Busy;
        }
        match self.decide_next_step(cpu, task) {
            Plan::Work(work) => {
                self.start_work(cpu, Mode::Task, work);
                TaskTurn::Busy
            }
            Plan::Spin(until) => {
                self.spin_until(cpu, task, until);
                TaskTurn::Busy
            }
            Plan::Poll => {
                self.poll_until(cpu, task, self.context.now() + LONGEST_POLL);
                TaskTurn::Busy
            }
            Plan::Sleep { iowait } => {
                if let Some(work) = self.begin_leaving_run_queue(task) {
                    self.start_work(cpu, Mode::Task, work);
                    return TaskTurn::Busy;
                }
                self.put_current_task_to_sleep(cpu, task, iowait);
                TaskTurn::Free
            }
            Plan::End => {
                self.context.count_ended_process();
                self.note_job_cut_off(task);
                self.leave_flow(task);
                self.note_found_depth(task);
                self.note_lateness_of_replay(task);
                self.end_submitter_of_process(task);
                self.add_rate_sums_of_process(task);
                self.end_mappings_of_task(task);
                self.put_current_task_to_sleep(cpu, task, false);
                (self.tasks[task].index_of_job_or_program()).map_or(TaskTurn::Free, TaskTurn::Ended)
            }
        }
    }

    /// Decides what a fio process does next: resume, wait, pause, flush, submit or end.
    #[inline(always)]
    pub(super) fn decide_next_step(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        if job.replay.is_some() {
            return self.decide_next_step_of_replay(cpu, task);
        }
        let own = &mut t.requests;
        // A system call that flushes returns only after the flush.
        let mut full = own.in_flight >= own.depth || process.flushing;
        // The commonest case of what follows.
        if full && !job.paced && job.batch.is_none() {
            if own.completed.len() >= own.wanted {
                return Plan::Work(self.begin_resumption_with_completed(cpu, task));
            }
            return t.plan_wait_for_requests(job);
        }
        let has_time = self.context.now() < process.ends;
        let goes_on = has_time && job.has_more_to_do(process.submitted, process.bytes);
        let more = if job.read_back.is_some() {
            process.settle_due_read_back(has_time, goes_on, full)
        } else {
            goes_on && !process.pass_is_over
        };
        let flush = job.flushes != [0, 0] && more && !full && process.flush_is_due(job.flushes);
        if let Some(batch) = &job.batch {
            full = process.reaps_before_submitting(full, batch, own.in_flight);
            own.wanted = batch.least.min(own.in_flight).max(1) as usize;
        }
        let held = if job.paced {
            self.delay_of_next_request(task, more && !full, flush)
        } else {
            None
        };
        // While it spins, fio takes nothing back; nor does it wait for what its threads do before it waits for its rate.
        let waits_for_all = match held {
            None | Some(Delay::Flow(0)) => false,
            Some(Delay::Until(_)) => !job.submits_by_threads(),
            Some(Delay::Pause | Delay::Flow(_)) => true,
        };
        let drains = !more || waits_for_all;
        if job.batch.is_some() && (full || drains) {
            self.submit_batch_before_wait(task, drains);
        }
        let t = &mut self.tasks[task];
        if t.requests.completed.len() >= t.requests.wanted && (full || drains) {
            return Plan::Work(self.begin_resumption_with_completed(cpu, task));
        }
        // As fio, which pauses after the last I/O, too. What follows the job's time is in none of its figures.
        let pauses_first = has_time && matches!(held, Some(Delay::Pause));
        if !more && t.requests.in_flight == 0 && !pauses_first {
            return self.end_pass_through_file(cpu, task, goes_on);
        }
        // As fio: before it pauses or waits for its turn, everything in flight is completed.
        if full || (drains && t.requests.in_flight > 0) {
            return t.plan_wait_for_requests(job);
        }
        if job.think_cycles > 0
            && let Kind::FioProcess(process) = &mut t.kind
            && process.thought_cycles < process.submitted
        {
            process.thought_cycles = process.submitted;
            t.begin_step(Step::Think, job.think_cycles);
            return Plan::Work(job.think_cycles);
        }
        if let Some(Delay::Pause) = held {
            return self.begin_due_pause(cpu, task);
        }
        if flush {
            if job.batch.is_some() {
                self.submit_batch_before_wait(task, false);
            }
            return self.begin_fsync_call(cpu, task);
        }
        match held {
            Some(Delay::Until(until)) => {
                t.step = Step::Wait;
                return self.plan_pause_until(cpu, task, until);
            }
            Some(Delay::Flow(0)) => return Plan::Spin(self.context.now() + FLOW_SPIN),
            Some(Delay::Flow(sleep)) => {
                t.step = Step::Wait;
                return self.plan_pause_until(cpu, task, self.context.now() + sleep);
            }
            Some(Delay::Pause) | None => {}
        }
        if job.settles_size || self.setup.io.submission_work_depends_on_bytes() {
            return self.begin_request_of_settled_size(cpu, task);
        }
        Plan::Work(self.begin_submission(task, 0))
    }

    /// Ends a process's walk through its file, with nothing in flight: flushes, starts over, or ends the process.
    fn end_pass_through_file(&mut self, cpu: CpuId, task: TaskId, goes_on: bool) -> Plan {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        if job.read_back.is_some() {
            return self.end_pass_of_verifying_process(cpu, task);
        }
        if job.flushes_at_end
            && process.last_write_is_unflushed()
            && (!goes_on || job.flushes_each_way)
        {
            return self.begin_fsync_call(cpu, task);
        }
        if goes_on && process.starts_file_once_more() {
            self.begin_pass_through_cached_file(task);
            return self.decide_next_step(cpu, task);
        }
        Plan::End
    }

    /// Begins a process's due pause: by spinning, or by sleep.
    fn begin_due_pause(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        process.begin_pause(self.context.now(), self.context.now() + job.think_time);
        if job.think_spin > 0 {
            return Plan::Spin(self.context.now() + job.think_spin);
        }
        t.begin_step(Step::Think, 0);
        self.plan_pause_until(cpu, task, self.context.now() + job.think_time)
    }

    /// Settles the size of a process's next request, and begins its buffer work, page cache call or submission.
    #[inline(always)]
    fn begin_request_of_settled_size(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        let Some(bytes) = process.settle_bytes_of_next_request(job, self.context.random_streams())
        else {
            process.pass_is_over = true;
            return self.decide_next_step(cpu, task);
        };
        if (job.buffer_cycles != [0, 0] || process.reads_back_next)
            && let Some(work) = self.begin_buffer_work(task, bytes)
        {
            return Plan::Work(work);
        }
        if job.cache.is_some()
            && let Some(work) = self.begin_page_cache_call(cpu, task, bytes)
        {
            return Plan::Work(work);
        }
        let work = self.begin_submission(task, bytes);
        if job.direct_file.is_some() {
            return Plan::Work(self.add_timestamps_to_submission(task, work));
        }
        Plan::Work(work)
    }

    /// Adds the change of a file's timestamps to the submission of a process's write. Returns the work of both.
    #[cold]
    fn add_timestamps_to_submission(&mut self, task: TaskId, submission: Cycles) -> Cycles {
        let writes = matches!(&self.tasks[task].kind, Kind::FioProcess(process) if process.direction == Some(Direction::Write));
        if !writes {
            return submission;
        }
        // Direct writes do not wait for the inodes' block.
        let work = submission + self.begin_write_on_file_system(task).work();
        let t = &mut self.tasks[task];
        t.begin_step(Step::Submit, work);
        t.requests.submission = work;
        work
    }

    /// Begins a fsync call: writes back the file's dirty pages, if any may be cached, and flushes the drive.
    #[inline(never)]
    pub(super) fn begin_fsync_call(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        let data_only = process.fdatasync_is_due(job.flushes);
        process.begin_fsync(self.context.now());
        if job.files().is_some() {
            return Plan::Work(self.begin_write_back_of_file(cpu, task, data_only));
        }
        Plan::Work(self.begin_submission(task, 0))
    }

    /// Begins the flush at the end of a durable write's system call.
    #[cold]
    fn begin_flush_after_write(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        if let Kind::FioProcess(process) = &mut self.tasks[task].kind {
            process.flushing = true;
        }
        let work = self.begin_submission(task, 0);
        self.start_work(cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    /// Notes that a process's job is cut off by the longest simulated time, with more to do.
    fn note_job_cut_off(&mut self, task: TaskId) {
        let Kind::FioProcess(process) = &self.tasks[task].kind else {
            return;
        };
        let index = process.job;
        let job = &self.setup.jobs[index];
        let over = self.context.now() >= process.ends && !process.steering.is_satisfied;
        let unfinished =
            job.has_more_to_do(process.submitted, process.bytes) || process.has_unread_writes();
        if job.cut && over && unfinished && !self.workload.job_totals.cut.contains(&index) {
            self.workload.job_totals.cut.push(index);
        }
    }

    /// Adds to its job's rate sums what the rates asked of an ended process, and what the process issued.
    fn add_rate_sums_of_process(&mut self, task: TaskId) {
        let Kind::FioProcess(process) = &self.tasks[task].kind else {
            return;
        };
        let job = &self.setup.jobs[process.job];
        let Some(periods) = job.periods else {
            return;
        };
        let time =
            (self.context.now()).saturating_sub(process.started + process.second_passes_took);
        let is_poisson = job.poisson.is_some();
        for (direction, sums) in self.workload.job_totals.rates[process.job]
            .iter_mut()
            .enumerate()
        {
            let (period, issued) = (periods[direction], process.issued[direction]);
            // A Poisson process asks for the arrivals that were drawn, however many its rate makes on average. Behind its time,
            // it has not drawn all of them.
            sums.asked += if is_poisson {
                issued as f64 + period.amount_asked_in(time.saturating_sub(process.due[direction]))
            } else {
                period.amount_asked_in(time)
            };
            sums.issued += issued;
        }
    }

    /// What delays a process's next request: a due pause, or a rate. `ready`: it could submit now; `flushes`: a flush comes first.
    #[inline(never)]
    fn delay_of_next_request(&mut self, task: TaskId, ready: bool, flushes: bool) -> Option<Delay> {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return None;
        };
        let job = &self.setup.jobs[process.job];
        let in_flight = t.requests.in_flight;
        process.end_pause(self.context.now());
        let pauses =
            job.think_time > 0 && process.pause_is_due(job.pauses, in_flight, self.context.now());
        let until = if ready && !process.reads_back_next {
            process.rates_hold_back_until(job, self.context.now(), self.context.random_streams())
        } else {
            None
        };
        if pauses {
            return Some(Delay::Pause);
        }
        if ready
            && job.flow.is_some()
            && let Some(sleep) = self.flow_holds_back_for(task)
        {
            return Some(Delay::Flow(sleep));
        }
        if flushes {
            // Rates hold back requests, but no flushes.
            None
        } else {
            until.map(Delay::Until)
        }
    }

    /// Lets a process that has spun sleep for the rest of its pause, as fio (`handle_thinktime()`).
    fn sleep_for_rest_of_pause(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let t = &mut self.tasks[task];
        t.begin_step(Step::Think, 0);
        let until = match &t.kind {
            Kind::FioProcess(process) => process.end_of_pause(),
            Kind::FioHelper(_) | Kind::Thread(_) | Kind::Server(_) | Kind::KernelThread(_) => 0,
        };
        if until <= self.context.now() {
            return self.begin_next_step(cpu, task);
        }
        if let Plan::Spin(end) = self.plan_pause_until(cpu, task, until) {
            self.spin_until(cpu, task, end);
            return TaskTurn::Busy;
        }
        self.put_current_task_to_sleep(cpu, task, false);
        TaskTurn::Free
    }

    /// Plans to sleep until a time in ns, as fio's `usec_sleep()`.
    pub(super) fn plan_pause_until(&mut self, cpu: CpuId, task: TaskId, mut until: u64) -> Plan {
        self.tasks[task].requests.awaits_helper = false;
        let slack = self.setup.cpu.timer_slack();
        if slack > 0 {
            // As fio's usec_sleep(): it sleeps for so much less, and looks at the clock for what is left then.
            let shortest = self.setup.cpu.fio_shortest_sleep();
            if until < self.context.now() + shortest {
                return Plan::Spin(until);
            }
            until = until - shortest + slack;
        }
        self.start_high_resolution_timer(cpu, until, slack, Timer::Task(task));
        Plan::Sleep { iowait: false }
    }
}

impl Task {
    /// Plans to sleep until the task's requests complete, in I/O wait if the job counts so.
    #[inline(always)]
    pub(super) fn plan_wait_for_requests(&mut self, job: &JobSetup) -> Plan {
        if job.polling.spins {
            return Plan::Poll;
        }
        self.step = Step::Wait;
        self.requests.awaits_helper = job.helpers.is_some();
        let flushing = matches!(&self.kind, Kind::FioProcess(process) if process.flushing);
        Plan::Sleep {
            iowait: job.iowait || flushing,
        }
    }
}
