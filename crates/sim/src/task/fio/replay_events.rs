//! Events of processes that replay a block trace or a log of fio.

use wakepath_workloads::block_trace::TraceIo;
use wakepath_workloads::fio::NextIo;

use crate::core::basics::{CpuId, Direction, TaskId, Timer};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::error::SimError;
use crate::task::fio::replay::{Replay, ReplayedRequest};
use crate::task::fio::setup::JobSetup;
use crate::task::fio::steps::Plan;
use crate::task::state::{Kind, Step};

impl<O: Observer> Engine<'_, O> {
    /// Opens the trace or log that a process of a job replays from the time `started` in ns, if the job replays one.
    pub(super) fn open_trace_of_process(&mut self, job: &JobSetup, task: TaskId, started: u64) {
        let Some(setup) = &job.replay else {
            return;
        };
        match Replay::new(setup, started) {
            Ok(replay) => {
                if let Kind::FioProcess(process) = &mut self.tasks[task].kind {
                    process.replay = Some(Box::new(replay));
                }
            }
            Err(error) => self
                .context
                .end_run_with_failure(SimError::BlockTrace(error)),
        }
    }

    /// Decides what a process that replays a trace does next: begin a request that is due, take back completed ones, or wait.
    #[inline(never)]
    pub(super) fn decide_next_step_of_replay(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let now = self.context.now();
        if let Kind::FioProcess(process) = &mut self.tasks[task].kind
            && let Some(replay) = &mut process.replay
            && let Some(timer) = replay.timer.take()
        {
            self.cancel_high_resolution_timer(timer, Timer::Task(task));
        }
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return Plan::End;
        };
        let Some(replay) = &mut process.replay else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        let ends = process.ends;
        let has_time = now < ends;
        let has_next = match replay.settle_next_request() {
            Ok(has_next) => has_next && has_time,
            Err(error) => {
                self.context
                    .end_run_with_failure(SimError::BlockTrace(error));
                return Plan::End;
            }
        };
        let own = &mut t.requests;
        let is_full = own.in_flight >= own.depth || process.flushing;
        let due = if has_next && !is_full {
            replay.due_time(now)
        } else {
            None
        };
        if due.is_some_and(|due| due <= now)
            && let Some(request) = replay.take_next_request(now)
        {
            own.deactivated = false;
            return self.begin_request_of_trace(cpu, task, request);
        }
        let is_log = replay.replays_log();
        if is_log {
            // At the end of a log, fio waits for all that is in flight at once.
            own.wanted = if has_next {
                1
            } else {
                own.in_flight.max(1) as usize
            };
        }
        // With a log, fio takes nothing back while it waits for a time.
        let takes_back = !is_log || is_full || !has_next;
        if takes_back && own.completed.len() >= own.wanted {
            if is_log {
                self.attribute_sleep_until_last_issue(task);
            }
            return Plan::Work(self.begin_resumption_with_completed(cpu, task));
        }
        if own.in_flight == 0 && !has_next {
            if job.flushes_at_end && process.last_write_is_unflushed() {
                return self.begin_fsync_call(cpu, task);
            }
            return Plan::End;
        }
        let Some(due) = due else {
            return t.plan_wait_for_requests(job);
        };
        replay.timer = Some(cpu);
        if is_log {
            let until = replay.end_of_sleep(now, due).min(ends);
            process.begin_pause(now, until);
            t.begin_step(Step::Think, 0);
            return self.plan_pause_until(cpu, task, until);
        }
        t.step = Step::Wait;
        let at = due.min(ends);
        self.start_high_resolution_timer(cpu, at, 0, Timer::Task(task));
        Plan::Sleep { iowait: false }
    }

    /// Attributes the time in which a process slept for its log to the waiting of requests that had completed by then.
    fn attribute_sleep_until_last_issue(&mut self, task: TaskId) {
        let own = &self.tasks[task].requests;
        for request in own.completed.iter() {
            self.requests[*request].attribute_time_not_looked_at(own.begun);
        }
    }

    /// Begins the submission of a request of a trace.
    fn begin_request_of_trace(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        request: ReplayedRequest,
    ) -> Plan {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        let (direction, bytes) = match request.io {
            // The flush of a log is a call of fsync, which is timed.
            TraceIo::Flush
                if process
                    .replay
                    .as_ref()
                    .is_some_and(|replay| replay.replays_log()) =>
            {
                return self.begin_fsync_call(cpu, task);
            }
            TraceIo::Flush => {
                process.flushing = true;
                return Plan::Work(self.begin_submission(task, 0));
            }
            TraceIo::Read => (Direction::Read, request.bytes),
            TraceIo::Write => (Direction::Write, request.bytes),
            // Trims are writes without data.
            TraceIo::Trim => (Direction::Write, 0),
        };
        process.direction = Some(direction);
        process.next = Some(NextIo {
            offset: request.offset,
            bytes,
        });
        Plan::Work(self.begin_submission(task, bytes))
    }

    /// Notes how late an ended process's replay was.
    pub(super) fn note_lateness_of_replay(&mut self, task: TaskId) {
        if let Kind::FioProcess(process) = &self.tasks[task].kind
            && let Some(replay) = &process.replay
        {
            let replays = &mut self.workload.job_totals.replays;
            replays.push((process.job, replay.totals()));
        }
    }
}
