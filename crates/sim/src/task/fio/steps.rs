//! What a process of a job does next: submit, take back, pause, flush, end.

use wakepath_policies::psd::Grant;

use crate::core::basics::{CpuId, Cycles, TaskId, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::error::SimError;
use crate::page_cache::events::CallTurn;
use crate::task::events::TaskTurn;
use crate::task::fio::setup::JobSetup;
use crate::task::state::{Kind, Step, Task};

/// What a process does next.
enum Plan {
    /// This much work.
    Work(Cycles),
    /// Look at the clock until this time.
    Spin(u64),
    /// Sleep, until a request or a timer ends it.
    Sleep { iowait: bool },
    /// Everything that the job asks for is done.
    End,
}

/// Why a process does not begin the next request.
enum Delay {
    /// A pause is due.
    Pause,
    /// The rates of the job hold the request back until this time.
    Until(u64),
}

impl<O: Observer> Engine<'_, O> {
    /// A process has done its segment of work.
    #[inline(always)]
    pub(in crate::task) fn end_process_segment(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let t = &self.tasks[task];
        let Kind::FioProcess(process) = &t.kind else {
            return TaskTurn::Free;
        };
        match t.step {
            Step::Submit => {
                let flushing = process.flushing;
                self.grant_lease(cpu, Grant::grants_on_issue);
                if flushing {
                    self.flush(cpu, task);
                } else {
                    self.submit(cpu, task);
                }
            }
            Step::Resume => {
                self.finish_requests(cpu, task);
                if self.has_unreturned_write(task) {
                    return self.begin_flush(cpu, task);
                }
            }
            Step::Spin => return self.rest(cpu, task),
            Step::Call => match self.continue_call(cpu, task) {
                CallTurn::Works => return TaskTurn::Busy,
                CallTurn::Sleeps => return TaskTurn::Free,
                CallTurn::Over => {}
            },
            // It woke up before its pause was over.
            Step::Think if process.pauses_until() > self.context.now() => {
                return self.rest(cpu, task);
            }
            Step::Deactivate | Step::Think | Step::Wait | Step::Thread | Step::Worker => {}
        }
        self.plan(cpu, task)
    }

    /// Whether a write of a process is on the media, and its system call goes on to flush the drive.
    #[inline(always)]
    fn has_unreturned_write(&self, task: TaskId) -> bool {
        matches!(&self.tasks[task].kind, Kind::FioProcess(process) if process.has_unreturned_write())
    }

    /// A process submits its next request.
    #[inline(always)]
    fn submit(&mut self, cpu: CpuId, task: TaskId) {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return;
        };
        let job = &self.setup.jobs[process.job];
        let (direction, bytes) = process.take_next(job, t.requests.begun, self.context.random());
        let data = if job.has_data(process.submitted) {
            bytes
        } else {
            0
        };
        if job.buffered && process.bytes > job.span {
            self.read_all(task);
        }
        self.submit_request(cpu, task, direction, data);
    }

    /// A job is about to read from the page cache what it has read before.
    #[cold]
    fn read_all(&mut self, task: TaskId) {
        let t = &self.tasks[task];
        let modelled = self.cache.is_some() && t.caller.is_some();
        let job = t.owner().map(|job| &self.setup.jobs[job]);
        let Some(job) = job.filter(|_| !modelled) else {
            return;
        };
        self.context.give_up(SimError::Workload {
            job: job.name.clone(),
            what: "buffered reads beyond its size, which the page cache has by then; give a larger size, or direct=1"
                .to_owned(),
        });
    }

    /// Decides what a process does next, and begins that.
    pub(in crate::task) fn plan(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        match self.next_step(cpu, task) {
            Plan::Work(work) => {
                self.execute(cpu, Mode::Task, work);
                TaskTurn::Busy
            }
            Plan::Spin(until) => {
                self.spin_until(cpu, task, until);
                TaskTurn::Busy
            }
            Plan::Sleep { iowait } => {
                if let Some(work) = self.deactivate(task) {
                    self.execute(cpu, Mode::Task, work);
                    return TaskTurn::Busy;
                }
                self.sleep(cpu, task, iowait);
                TaskTurn::Free
            }
            Plan::End => {
                self.context.end_process();
                self.note_cut(task);
                self.note_rates(task);
                self.sleep(cpu, task, false);
                (self.tasks[task].owner()).map_or(TaskTurn::Free, TaskTurn::Ended)
            }
        }
    }

    /// Decides what a process does next.
    #[inline(always)]
    fn next_step(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        let own = &mut t.requests;
        // A system call that flushes returns when that is done.
        let mut full = own.in_flight >= job.depth || process.flushing;
        // The commonest case of what follows.
        if full && !job.paced && job.batch.is_none() {
            if own.completed.len() >= own.wanted {
                return Plan::Work(self.resume(cpu, task));
            }
            return t.wait_for_requests(job);
        }
        let goes_on = self.context.now() < process.ends
            && !self.workload.jobs.ending
            && job.has_more(process.submitted, process.bytes);
        let more = goes_on && !process.pass_is_over;
        let flush = job.flushes != [0, 0] && more && !full && process.flush_is_due(job.flushes);
        if let Some(batch) = &job.batch {
            full = process.reaps_batch(full, batch, own.in_flight);
            own.wanted = batch.least.min(own.in_flight).max(1) as usize;
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
        if t.requests.completed.len() >= t.requests.wanted && (full || drains) {
            return Plan::Work(self.resume(cpu, task));
        }
        if !more && t.requests.in_flight == 0 {
            return self.end_pass(cpu, task, goes_on);
        }
        // As fio: before it pauses or waits for its turn, everything in flight is completed.
        if !more || full || (held.is_some() && t.requests.in_flight > 0) {
            return t.wait_for_requests(job);
        }
        if job.think_cycles > 0
            && let Kind::FioProcess(process) = &mut t.kind
            && process.thought_cycles < process.submitted
        {
            process.thought_cycles = process.submitted;
            t.begin(Step::Think, job.think_cycles);
            return Plan::Work(job.think_cycles);
        }
        if let Some(Delay::Pause) = held {
            return self.begin_pause(cpu, task);
        }
        if flush {
            if job.batch.is_some() {
                self.submit_batch(task, false);
            }
            return self.begin_fsync(cpu, task);
        }
        if let Some(Delay::Until(until)) = held {
            t.step = Step::Wait;
            return self.pause_until(cpu, task, until);
        }
        if job.settles_size || self.setup.io.depends_on_bytes() {
            return self.begin_sized(cpu, task);
        }
        Plan::Work(self.begin_submission(task, 0))
    }

    /// A process has nothing in flight and submits nothing more on this way through its file.
    fn end_pass(&mut self, cpu: CpuId, task: TaskId, goes_on: bool) -> Plan {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        if job.flushes_at_end && process.last_flush_is_due() && (!goes_on || job.flushes_each_way) {
            return self.begin_fsync(cpu, task);
        }
        if goes_on && process.starts_over() {
            return self.next_step(cpu, task);
        }
        Plan::End
    }

    /// The pause of a process that was due begins.
    fn begin_pause(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        process.begin_pause(self.context.now(), self.context.now() + job.think_time);
        if job.think_spin > 0 {
            return Plan::Spin(self.context.now() + job.think_spin);
        }
        t.begin(Step::Think, 0);
        self.pause_until(cpu, task, self.context.now() + job.think_time)
    }

    /// A process begins its next request, whose size is settled before.
    #[inline(always)]
    fn begin_sized(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        let Some(bytes) = process.next_bytes(job, self.context.random()) else {
            process.pass_is_over = true;
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
        Plan::Work(self.begin_submission(task, bytes))
    }

    /// A job flushes the drive, after what the page cache has of its file is written back.
    #[inline(never)]
    fn begin_fsync(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        process.flushing = true;
        match &self.setup.jobs[process.job].cache {
            Some(_) => Plan::Work(self.begin_write_back(cpu, task)),
            None => Plan::Work(self.begin_submission(task, 0)),
        }
    }

    /// A write is on the media, and its system call flushes the drive.
    #[cold]
    fn begin_flush(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        if let Kind::FioProcess(process) = &mut self.tasks[task].kind {
            process.flushing = true;
        }
        let work = self.begin_submission(task, 0);
        self.execute(cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    /// Takes down a job that ends at the longest time that it is simulated for, with more to do.
    fn note_cut(&mut self, task: TaskId) {
        let Kind::FioProcess(process) = &self.tasks[task].kind else {
            return;
        };
        let index = process.job;
        let job = &self.setup.jobs[index];
        let over = self.context.now() >= process.ends;
        let unfinished = job.has_more(process.submitted, process.bytes);
        if job.cut && over && unfinished && !self.workload.job_totals.cut.contains(&index) {
            self.workload.job_totals.cut.push(index);
        }
    }

    /// Adds what the rates of a job that ends asked for since its start, and what it issued.
    fn note_rates(&mut self, task: TaskId) {
        let Kind::FioProcess(process) = &self.tasks[task].kind else {
            return;
        };
        let job = &self.setup.jobs[process.job];
        let Some(periods) = job.periods else {
            return;
        };
        let time = self.context.now().saturating_sub(process.started);
        let is_poisson = job.poisson.is_some();
        for (direction, sums) in self.workload.job_totals.rates[process.job]
            .iter_mut()
            .enumerate()
        {
            let (period, issued) = (periods[direction], process.issued[direction]);
            // A Poisson process asks for the arrivals that were drawn, however many its rate makes on average. Behind its time,
            // it has not drawn all of them.
            sums.asked += if is_poisson {
                issued as f64 + period.asked_in(time.saturating_sub(process.due[direction]))
            } else {
                period.asked_in(time)
            };
            sums.issued += issued;
        }
    }

    /// What delays the next request of a process, which is `ready` for a request or not, and `flushes` before the request.
    #[inline(never)]
    fn pace(&mut self, task: TaskId, ready: bool, flushes: bool) -> Option<Delay> {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return None;
        };
        let job = &self.setup.jobs[process.job];
        let in_flight = t.requests.in_flight;
        let pauses =
            job.think_time > 0 && process.pause_is_due(job.pauses, in_flight, self.context.now());
        let until = if ready {
            process.held_back(job, self.context.now(), self.context.random())
        } else {
            None
        };
        if pauses {
            Some(Delay::Pause)
        } else if flushes {
            // Rates hold back requests, and no flushes.
            None
        } else {
            until.map(Delay::Until)
        }
    }

    /// A job has spun: as fio (`handle_thinktime()`), it sleeps for what is left of its pause.
    fn rest(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let t = &mut self.tasks[task];
        t.begin(Step::Think, 0);
        let until = match &t.kind {
            Kind::FioProcess(process) => process.pauses_until(),
            Kind::Thread(_) | Kind::KernelThread(_) => 0,
        };
        if until <= self.context.now() {
            return self.plan(cpu, task);
        }
        if let Plan::Spin(end) = self.pause_until(cpu, task, until) {
            self.spin_until(cpu, task, end);
            return TaskTurn::Busy;
        }
        self.sleep(cpu, task, false);
        TaskTurn::Free
    }

    fn pause_until(&mut self, cpu: CpuId, task: TaskId, mut until: u64) -> Plan {
        let slack = self.setup.cpu.timer_slack();
        if slack > 0 {
            // As fio's usec_sleep(): it sleeps for so much less, and looks at the clock for what is left then.
            let shortest = self.setup.cpu.shortest_sleep();
            if until < self.context.now() + shortest {
                return Plan::Spin(until);
            }
            until = until - shortest + slack;
        }
        self.start_timer(cpu, until, slack, Timer::Task(task));
        Plan::Sleep { iowait: false }
    }
}

impl Task {
    /// Waits for requests of the job.
    #[inline(always)]
    fn wait_for_requests(&mut self, job: &JobSetup) -> Plan {
        self.step = Step::Wait;
        let flushing = matches!(&self.kind, Kind::FioProcess(process) if process.flushing);
        Plan::Sleep {
            iowait: job.iowait || flushing,
        }
    }
}
