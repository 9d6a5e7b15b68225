//! Tasks: waking, running, what they do next.

use wakepath_policies::psd::Grant;
use wakepath_units::Nanoseconds;

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, TaskId, Timer};
use crate::core::parts::{Part, Work};
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::frequency::clocks::report::Report;
use crate::observe::observer::{Observer, RequestStep};
use crate::observe::recorder::Recorder;
use crate::setup::Setup;
use crate::task::fio::setup::JobSetup;
use crate::task::state::{Program, Step, Task};

/// What a job does next.
enum Plan {
    /// This much work.
    Work(Cycles),
    /// It looks at the clock until then.
    Spin(u64),
    /// It waits, for its requests or a timer.
    Sleep { iowait: bool },
    /// It has done all that it had to do.
    End,
}

/// Why a job does not begin its next request.
enum Held {
    /// A pause is due.
    Pauses,
    /// Its rates hold it back until then.
    Until(u64),
}

impl<O: Observer> Engine<'_, O> {
    /// Puts a task on the run queue of `to`; the code that wakes it runs on `from`, if on any CPU.
    /// Returns how long `to` takes to hear of it.
    pub(crate) fn wake_task(&mut self, from: Option<CpuId>, task: TaskId, to: CpuId) -> u64 {
        let t = &mut self.tasks[task];
        let iowait = std::mem::take(&mut t.in_iowait);
        if iowait {
            self.cpus[t.cpu].run_queue.end_wait_for_io();
        }
        if t.cpu != to {
            self.migrate(task, to);
        }
        let (t, c) = (&mut self.tasks[task], &self.cpus[to]);
        let slept = !std::mem::replace(&mut t.runnable, true);
        let least = c.run_queue.least_vruntime();
        self.setup.scheduler.place(&mut t.entity, least);
        // A CPU of another cluster puts the task on its run queue itself.
        let local = from.is_none_or(|f| f == to || self.cpus[f].cluster != c.cluster);
        if iowait {
            self.update_frequency(to, Report::end_of_wait_for_io(local));
        }
        let ran = self.cpus[to].runs_task();
        self.task_changes(to, ran, local, task, slept.then_some(true));
        if self.cpus[to].run_queue.current().is_none() {
            self.enqueue(to, task);
        } else {
            let takes_over = self.takes_over(to, task);
            self.enqueue(to, task);
            if takes_over && from == Some(to) {
                self.cpus[to].run_queue.request_resched();
            } else if takes_over {
                self.reschedule(to);
            }
        }
        self.call(from, to)
    }

    /// Runs what is to run on a CPU. Returns whether it has something to do now.
    pub(crate) fn run_task(&mut self, cpu: CpuId) -> bool {
        let Some(task) = self.pick(cpu) else {
            return false;
        };
        let t = &self.tasks[task];
        let work = match t.program {
            _ if t.step == Step::Spin => {
                self.spin(cpu, task);
                return true;
            }
            _ if t.step != Step::Wait => t.work,
            Program::Thread(_) if !t.completed.is_empty() => self.resume(cpu, task),
            Program::Thread(thread) => return self.thread_turn(cpu, task, thread),
            Program::Job | Program::Worker | Program::Flusher | Program::Sugov(_) => {
                self.plan(cpu, task);
                return true;
            }
        };
        self.execute(cpu, Mode::Task, work);
        true
    }

    /// The current task has done its segment of work.
    #[inline(always)]
    pub(crate) fn tasks_turn(&mut self, cpu: CpuId, task: TaskId) {
        match self.tasks[task].program {
            Program::Worker => {
                let source = self.setup.background[task % self.setup.background.len()];
                if source.callbacks {
                    self.cpus[cpu].rcu.call();
                }
                if self.setup.grace_period_thread() == Some(task) {
                    self.end_grace_period_work(cpu, task);
                } else if !self.tasks[task].is_bound() {
                    self.rest_roaming(cpu, task);
                }
                self.block(cpu, task, false);
            }
            Program::Job => self.jobs_turn(cpu, task),
            Program::Flusher => self.calls_turn(cpu, task),
            Program::Sugov(clock) => {
                self.begin_frequency_change(clock);
                self.block(cpu, task, false);
            }
            Program::Thread(thread) => {
                match self.tasks[task].step {
                    Step::Submit => {
                        self.grant_lease(cpu, Grant::on_issue);
                        let writes = self.tasks[task].writes;
                        self.submit_request(cpu, task, Direction::Write, writes);
                        if let Some(work) = self.deactivate(task) {
                            return self.execute(cpu, Mode::Task, work);
                        }
                        self.tasks[task].step = Step::Wait;
                        return self.block(cpu, task, true);
                    }
                    Step::Deactivate if self.tasks[task].completed.is_empty() => {
                        self.tasks[task].step = Step::Wait;
                        return self.block(cpu, task, true);
                    }
                    Step::Deactivate => {
                        let work = self.resume(cpu, task);
                        return self.execute(cpu, Mode::Task, work);
                    }
                    Step::Resume => self.finish_requests(cpu, task),
                    _ => {}
                }
                if !self.thread_turn(cpu, task, thread) {
                    self.next(cpu);
                }
            }
        }
    }

    /// A thread begins to write so many bytes.
    pub(crate) fn begin_write(&mut self, cpu: CpuId, task: TaskId, bytes: u64) {
        self.tasks[task].writes = bytes;
        let work = self.begin_submission(task, bytes);
        self.execute(cpu, Mode::Task, work);
    }

    /// A task begins to submit a request of so many bytes. Returns how much work that is.
    #[inline(always)]
    fn begin_submission(&mut self, task: TaskId, bytes: u64) -> Cycles {
        let mut work = self.setup.io.submission(bytes);
        let t = &mut self.tasks[task];
        if t.flushing {
            work += self.setup.io.flush;
        }
        if t.program == Program::Job {
            let job = &self.setup.jobs[t.job];
            if job.content_cycles > 0 && bytes > 0 && t.direction == Some(Direction::Write) {
                work += job.content_cycles * (bytes / 512);
            }
            if job.submits_alone {
                work += self.setup.cpu.syscall(t.cpu) + self.setup.io.asynchronous[0];
            }
        }
        t.begin(Step::Submit, work);
        t.submission = work;
        t.begun = self.now;
        self.observe_request(RequestStep::Begun { task });
        work
    }

    /// A task has nothing to do but to wait for its requests: it takes itself off the run queue, while the drive works. Returns
    /// how much work that is, if it has not been done.
    #[inline(always)]
    fn deactivate(&mut self, task: TaskId) -> Option<Cycles> {
        let work = self.setup.io.deactivation;
        if work == 0 {
            return None;
        }
        let t = &mut self.tasks[task];
        if t.in_flight == 0 || t.deactivated {
            return None;
        }
        t.deactivated = true;
        t.begin(Step::Deactivate, work);
        Some(work)
    }

    /// A task goes on with its completed requests. Returns how much work that is.
    #[inline(always)]
    fn resume(&mut self, cpu: CpuId, task: TaskId) -> Cycles {
        let awake_since = self.cpus[cpu].awake_since();
        let t = &mut self.tasks[task];
        let taken = t.completed.len().min(t.most);
        let work = t.resumption(self.setup, &self.requests, taken);
        t.slept = false;
        t.deactivated = false;
        t.resumption = work;
        t.taking = taken;
        t.begin(Step::Resume, work);
        let (now, requests) = (self.now, &mut self.requests);
        (t.completed).for_first(taken, |request| {
            requests[request].attribute_wake_up(now, awake_since);
        });
        work
    }

    /// A task is back in user space with its completed requests.
    #[inline(always)]
    fn finish_requests(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.now;
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let taken = t.taking;
        let work = Work::new(t.resumption, t.cold, full_speed);
        for _ in 0..taken {
            let Some(request) = t.completed.pop_front() else {
                break;
            };
            let r = &mut self.requests[request];
            r.parts
                .add_work(Part::Completion, now - r.cut, t.executed, work);
            if matches!(r.kind, RequestKind::Flush | RequestKind::Synchronous) {
                let (flushing, write) = (&mut t.flushing, &mut t.unreturned);
                if let Some(write) = end_stretch(r, flushing, write) {
                    record(&write, t.counts_from, now, &mut self.recorder);
                }
            } else {
                record(r, t.counts_from, now, &mut self.recorder);
            }
            self.free_requests.push(request);
            if O::WATCHES {
                let step = RequestStep::Completed { request };
                self.observer.request(Nanoseconds(now), step);
            }
        }
        t.in_flight -= taken as u32;
    }

    #[inline(always)]
    fn jobs_turn(&mut self, cpu: CpuId, task: TaskId) {
        match self.tasks[task].step {
            Step::Submit => {
                self.grant_lease(cpu, Grant::on_issue);
                if self.tasks[task].flushing {
                    self.flush(cpu, task);
                } else {
                    self.submit(cpu, task);
                }
            }
            Step::Resume => {
                self.finish_requests(cpu, task);
                if self.tasks[task].unreturned.is_some() {
                    return self.begin_flush(cpu, task);
                }
            }
            Step::Spin => return self.rest(cpu, task),
            Step::Call => return self.calls_turn(cpu, task),
            // It woke up before its pause was over.
            Step::Think if self.tasks[task].pauses_until() > self.now => {
                return self.rest(cpu, task);
            }
            Step::Deactivate | Step::Think | Step::Wait | Step::Thread | Step::Worker => {}
        }
        self.plan(cpu, task);
    }

    /// Decides a job's next step and starts it, or blocks it.
    pub(crate) fn plan(&mut self, cpu: CpuId, task: TaskId) {
        match self.next_step(cpu, task) {
            Plan::Work(work) => self.execute(cpu, Mode::Task, work),
            Plan::Spin(until) => self.spin_until(cpu, task, until),
            Plan::Sleep { iowait } => {
                if let Some(work) = self.deactivate(task) {
                    self.execute(cpu, Mode::Task, work);
                } else {
                    self.sleep(cpu, task, iowait);
                    self.next(cpu);
                }
            }
            Plan::End => {
                self.end_process();
                self.note_cut(task);
                self.note_rates(task);
                self.block(cpu, task, false);
                self.job_process_ended(self.tasks[task].job);
            }
        }
    }

    #[inline(always)]
    fn next_step(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let t = &mut self.tasks[task];
        let job = &self.setup.jobs[t.job];
        // A system call that flushes returns when that is done.
        let mut full = t.in_flight >= job.depth || t.flushing;
        // The commonest case of what follows.
        if full && !job.paced && job.batch.is_none() {
            if t.completed.len() >= t.wanted {
                return Plan::Work(self.resume(cpu, task));
            }
            return t.wait_for_requests(job);
        }
        let goes_on = self.now < t.ends && !self.jobs.ending && job.has_more(t.submitted, t.bytes);
        let more = goes_on && !t.pass_is_over;
        let flush = job.flushes != [0, 0] && more && !full && t.flush_is_due(job.flushes);
        if let Some(batch) = &job.batch {
            full = t.reaps_batch(full, batch);
        }
        let held = if job.paced {
            self.pace(task, more && !full, flush)
        } else {
            None
        };
        let drains = !more || held.is_some();
        if job.batch.is_some() && (full || drains) {
            self.submit_batch(task, drains);
        }
        let t = &mut self.tasks[task];
        if t.completed.len() >= t.wanted && (full || drains) {
            return Plan::Work(self.resume(cpu, task));
        }
        if !more && t.in_flight == 0 {
            if job.flushes_at_end && t.last_flush_is_due() && (!goes_on || job.flushes_each_way) {
                t.flushing = true;
                return self.begin_fsync(cpu, task);
            }
            if goes_on && t.starts_over() {
                return self.next_step(cpu, task);
            }
            return Plan::End;
        }
        // As fio: before it pauses or waits for its turn, everything in flight is completed.
        if !more || full || (held.is_some() && t.in_flight > 0) {
            return t.wait_for_requests(job);
        }
        if job.think_cycles > 0 && t.thought_cycles < t.submitted {
            t.thought_cycles = t.submitted;
            t.begin(Step::Think, job.think_cycles);
            return Plan::Work(job.think_cycles);
        }
        if let Some(Held::Pauses) = held {
            t.begin_pause(self.now, self.now + job.think_time);
            if job.think_spin > 0 {
                return Plan::Spin(self.now + job.think_spin);
            }
            t.begin(Step::Think, 0);
            return self.pause_until(cpu, task, self.now + job.think_time);
        }
        if flush {
            t.flushing = true;
            if job.batch.is_some() {
                self.submit_batch(task, false);
            }
            return self.begin_fsync(cpu, task);
        }
        if let Some(Held::Until(until)) = held {
            t.step = Step::Wait;
            return self.pause_until(cpu, task, until);
        }
        let bytes = if job.settles_size || self.setup.io.depends_on_bytes() {
            let Some(bytes) = self.next_bytes(task) else {
                self.tasks[task].pass_is_over = true;
                return self.next_step(cpu, task);
            };
            if job.buffer_cycles != [0, 0]
                && let Some(work) = self.work_on_buffer(task, bytes)
            {
                return Plan::Work(work);
            }
            if job.cache.is_some()
                && let Some(work) = self.begin_call(cpu, task, bytes)
            {
                return Plan::Work(work);
            }
            bytes
        } else {
            0
        };
        Plan::Work(self.begin_submission(task, bytes))
    }

    /// A job flushes the drive, after what the page cache has of its file is written back.
    #[inline(never)]
    fn begin_fsync(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        match &self.setup.jobs[self.tasks[task].job].cache {
            Some(_) => Plan::Work(self.begin_write_back(cpu, task)),
            None => Plan::Work(self.begin_submission(task, 0)),
        }
    }

    /// A write is on the media, and its system call flushes the drive.
    #[cold]
    fn begin_flush(&mut self, cpu: CpuId, task: TaskId) {
        self.tasks[task].flushing = true;
        let work = self.begin_submission(task, 0);
        self.execute(cpu, Mode::Task, work);
    }

    /// Takes down a job that ends at the longest time that it is simulated for, with more to do.
    fn note_cut(&mut self, task: TaskId) {
        let t = &self.tasks[task];
        let job = &self.setup.jobs[t.job];
        let over = self.now >= t.ends;
        if job.cut
            && over
            && job.has_more(t.submitted, t.bytes)
            && !self.job_totals.cut.contains(&t.job)
        {
            self.job_totals.cut.push(t.job);
        }
    }

    /// Adds what the rates of a job that ends asked for since its start, and what it issued.
    fn note_rates(&mut self, task: TaskId) {
        let t = &self.tasks[task];
        let Some(periods) = self.setup.jobs[t.job].periods else {
            return;
        };
        let time = self.now.saturating_sub(t.started);
        let is_poisson = self.setup.jobs[t.job].poisson.is_some();
        for (direction, sums) in self.job_totals.rates[t.job].iter_mut().enumerate() {
            let (period, issued) = (periods[direction], t.issued[direction]);
            // A Poisson process asks for the arrivals that were drawn, however many its rate makes on average. Behind its time,
            // it has not drawn all of them.
            sums.asked += if is_poisson {
                issued as f64 + period.asked_in(time.saturating_sub(t.due[direction]))
            } else {
                period.asked_in(time)
            };
            sums.issued += issued;
        }
    }

    /// What a job waits for besides its requests, if it is `ready` for the next one or not, and `flushes` before it.
    #[inline(never)]
    fn pace(&mut self, task: TaskId, ready: bool, flushes: bool) -> Option<Held> {
        let t = &mut self.tasks[task];
        let job = &self.setup.jobs[t.job];
        let pauses = job.think_time > 0 && t.pause_is_due(job.pauses, self.now);
        let until = if ready { self.held_back(task) } else { None };
        if pauses {
            Some(Held::Pauses)
        } else if flushes {
            // Rates hold back requests, and no flushes.
            None
        } else {
            until.map(Held::Until)
        }
    }

    /// The current task begins to look at the clock, until `time`.
    pub(crate) fn spin_until(&mut self, cpu: CpuId, task: TaskId, time: u64) {
        let t = &mut self.tasks[task];
        t.begin(Step::Spin, 0);
        t.spin_until = time;
        self.spin(cpu, task);
    }

    /// The current task looks at the clock until it has spun for long enough.
    #[inline(never)]
    fn spin(&mut self, cpu: CpuId, task: TaskId) {
        let left = self.tasks[task].spin_until.saturating_sub(self.now);
        self.spin_phase(cpu, left);
    }

    /// A job has spun: as fio (`handle_thinktime()`), it sleeps for what is left of its pause.
    fn rest(&mut self, cpu: CpuId, task: TaskId) {
        let t = &mut self.tasks[task];
        t.begin(Step::Think, 0);
        let until = t.pauses_until();
        if until > self.now {
            match self.pause_until(cpu, task, until) {
                Plan::Spin(until) => self.spin_until(cpu, task, until),
                _ => self.block(cpu, task, false),
            }
        } else {
            self.plan(cpu, task);
        }
    }

    fn pause_until(&mut self, cpu: CpuId, task: TaskId, mut until: u64) -> Plan {
        if self.setup.cpu.timer_slack() > 0 {
            // As fio's usec_sleep(): it sleeps for so much less, and looks at the clock for what is left then.
            let shortest = self.setup.cpu.shortest_sleep();
            if until < self.now + shortest {
                return Plan::Spin(until);
            }
            until = until - shortest + self.setup.cpu.timer_slack();
        }
        let slack = self.setup.cpu.timer_slack();
        self.start_timer(cpu, until, slack, Timer::Task(task));
        Plan::Sleep { iowait: false }
    }

    pub(crate) fn block(&mut self, cpu: CpuId, task: TaskId, iowait: bool) {
        self.sleep(cpu, task, iowait);
        self.next(cpu);
    }

    /// The current task goes to sleep.
    #[inline(always)]
    pub(crate) fn sleep(&mut self, cpu: CpuId, task: TaskId, iowait: bool) {
        let t = &mut self.tasks[task];
        t.runnable = false;
        t.slept = true;
        t.in_iowait = iowait;
        t.entity.settle(self.now);
        self.cpus[cpu].run_queue.sleep(iowait);
        self.observe_runnable(cpu);
        self.task_changes(cpu, false, true, task, Some(false));
    }

    /// A task of a CPU wakes up there or goes to sleep. `change`: whether it can run from now on, if it could not before, or the other
    /// way round. schedutil's own threads count for nothing (`dl_entity_is_special()`).
    #[inline(always)]
    fn task_changes(
        &mut self,
        cpu: CpuId,
        ran: bool,
        local: bool,
        task: TaskId,
        change: Option<bool>,
    ) {
        if matches!(self.tasks[task].program, Program::Sugov(_)) {
            return self.account(cpu, ran);
        }
        self.account_and_report(cpu, ran, local, change.map(|can| (task, can)));
        if change == Some(false) {
            self.fair_tasks_ran(cpu);
        }
    }
}

impl Task {
    /// It waits for a request of its job.
    #[inline(always)]
    fn wait_for_requests(&mut self, job: &JobSetup) -> Plan {
        self.step = Step::Wait;
        Plan::Sleep {
            iowait: job.iowait || self.flushing,
        }
    }

    /// The work of going on with its first `taken` completed requests.
    #[inline(always)]
    fn resumption(&self, setup: &Setup, requests: &[Request], taken: usize) -> Cycles {
        let mut work = setup.io.resume(taken, self.slept) + setup.cpu.syscall(self.cpu);
        if self.program != Program::Job {
            return work;
        }
        let job = &setup.jobs[self.job];
        if job.buffered {
            work = self.copying(setup, requests, taken);
        }
        if job.submits_alone {
            work += setup.io.asynchronous[1];
        }
        work
    }

    /// The same of a job that uses the page cache.
    #[inline(never)]
    fn copying(&self, setup: &Setup, requests: &[Request], taken: usize) -> Cycles {
        let all = self.completed.iter().take(taken);
        let of = all.map(|id| &requests[*id]);
        // What did not go to the drive has been copied.
        let from_drive = of.filter(|request| request.kind != RequestKind::Cached);
        let (requests, pages) = from_drive.fold((0, 0), |(requests, work), request| {
            (requests + 1, work + setup.io.page_cache(request.bytes))
        });
        let slept = self.slept && requests > 0;
        setup.io.resume(requests, slept) + setup.cpu.syscall(self.cpu) + pages
    }
}

/// Records a request that is finished now, if it counts.
#[inline(always)]
fn record(request: &Request, counts_from: u64, now: u64, recorder: &mut Recorder) {
    let latency = now - request.begun;
    debug_assert_eq!(request.parts.total(), latency);
    if now >= counts_from {
        recorder.batches.add(now, latency);
        recorder.request(latency, &request.parts, request.direction, request.bytes);
    } else {
        recorder.ramped += 1;
    }
}

/// A flush has ended, or a write before its flush. Returns the write whose system call is over with that: both are in its
/// latency.
#[cold]
fn end_stretch(
    request: &Request,
    flushing: &mut bool,
    write: &mut Option<Box<Request>>,
) -> Option<Box<Request>> {
    if request.kind != RequestKind::Flush {
        *write = Some(Box::new(*request));
        return None;
    }
    *flushing = false;
    let mut write = write.take()?;
    write.parts.append(&request.parts);
    Some(write)
}
