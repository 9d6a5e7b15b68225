//! A verifying process: what it reads back before its next I/O, and its second pass.
//!
//! As fio 3.33 (`do_io()`, `do_verify()` in `backend.c`): before the second pass, fio flushes the file and drops what the
//! page cache has of it. [`ReadBack`](wakepath_workloads::fio::ReadBack) says which writes are read back.

use wakepath_workloads::fio::NextIo;

use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::task::fio::process::FioProcess;
use crate::task::fio::steps::Plan;
use crate::task::state::Kind;

/// Token of a write that the page cache takes in the system call itself.
const CACHED: usize = usize::MAX;

impl FioProcess {
    /// Whether a verifying process has another I/O to do. Settles the read that is due, unless the queue is `full`.
    ///
    /// `has_time`: neither the job's time nor `exitall` has ended the process. `has_more`: the job's limits let it write.
    #[inline(never)]
    pub(super) fn settle_due_read_back(
        &mut self,
        has_time: bool,
        has_more: bool,
        full: bool,
    ) -> bool {
        let Some(read_back) = &mut self.read_back else {
            return false;
        };
        if !has_time || self.reads_back_next {
            return has_time;
        }
        let goes_on = if read_back.is_in_second_pass() {
            !read_back.is_done()
        } else {
            let pass_has_bytes = (self.walk.as_ref()).is_none_or(|walk| walk.pass_has_bytes_left());
            has_more && !self.pass_is_over && pass_has_bytes
        };
        if goes_on
            && !full
            && self.next.is_none()
            && let Some(io) = read_back.take_due_read()
        {
            self.reads_back_next = true;
            self.direction = Some(Direction::Read);
            self.next = Some(io);
        }
        goes_on
    }

    /// Notes a submitted request of a process that reads back or replays, or whose data others check.
    #[inline(never)]
    pub(super) fn note_submitted_request(
        &mut self,
        request: RequestId,
        direction: Direction,
        bytes: u64,
    ) {
        if let Some(replay) = &mut self.replay {
            return replay.note_submitted_request(request);
        }
        let reads_back = std::mem::take(&mut self.reads_back_next);
        let checks = (self.helpers.as_ref()).is_some_and(|helpers| helpers.setup.checks());
        let is_checked = reads_back || (self.read_back.is_none() && direction == Direction::Read);
        if checks && is_checked && request != CACHED {
            self.steering.note_read_to_check(request);
        }
        if reads_back {
            if let Some(walk) = &mut self.walk {
                walk.count_read_back(bytes);
            }
        } else if direction == Direction::Write
            && let (Some(read_back), Some(offset)) = (&mut self.read_back, self.offset)
        {
            read_back.add_write(request, NextIo { offset, bytes });
        }
    }

    /// Notes a request that the page cache serves in the system call itself.
    pub(in crate::task) fn note_cached_request(&mut self, direction: Direction, bytes: u64) {
        self.note_submitted_request(CACHED, direction, bytes);
        self.note_read_or_written(CACHED, direction);
    }

    /// Notes that a request has ended.
    pub(super) fn note_read_or_written(&mut self, request: RequestId, direction: Direction) {
        if let Some(read_back) = &mut self.read_back {
            read_back.note_end(request, direction == Direction::Read);
        }
    }

    /// Whether the process reads back what it wrote, and does nothing else.
    pub(super) fn is_in_second_pass(&self) -> bool {
        (self.read_back.as_ref()).is_some_and(|read_back| read_back.is_in_second_pass())
    }

    /// Whether the process has writes that it has not read back.
    pub(super) fn has_unread_writes(&self) -> bool {
        (self.read_back.as_ref()).is_some_and(|read_back| !read_back.is_done())
    }

    /// Begins a process's second pass, at the time `now` in ns.
    fn begin_second_pass(&mut self, now: u64) {
        self.synced_for_second_pass = false;
        self.second_pass_began = now;
        self.direction = None;
        if let Some(read_back) = &mut self.read_back {
            read_back.begin_second_pass();
        }
    }

    /// Ends a process's second pass, at the time `now` in ns. Returns whether the process goes through its file again.
    fn end_second_pass(&mut self, now: u64) -> bool {
        self.second_passes_took += now - self.second_pass_began;
        self.pass_is_over = false;
        if let Some(read_back) = &mut self.read_back {
            read_back.end_second_pass();
        }
        (self.walk.as_mut()).is_some_and(|walk| walk.start_over_unless_finished_or_stuck())
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Ends a pass of a verifying process, with nothing in flight: the second pass, another one, or the end follows.
    #[inline(never)]
    pub(super) fn end_pass_of_verifying_process(&mut self, cpu: CpuId, task: TaskId) -> Plan {
        let now = self.context.now();
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return Plan::End;
        };
        let job = &self.setup.jobs[process.job];
        let has_time = now < process.ends;
        if !process.is_in_second_pass() {
            if job.flushes_at_end && process.last_write_is_unflushed() {
                return self.begin_fsync_call(cpu, task);
            }
            if !has_time {
                return Plan::End;
            }
            if job.flushes_before_second_pass && !process.synced_for_second_pass {
                process.synced_for_second_pass = true;
                return self.begin_fsync_call(cpu, task);
            }
            process.begin_second_pass(now);
            self.drop_cached_pages_of_task(task);
            return self.decide_next_step(cpu, task);
        }
        let goes_on = has_time && job.has_more_to_do(process.submitted, process.bytes);
        if process.end_second_pass(now) && goes_on {
            return self.decide_next_step(cpu, task);
        }
        Plan::End
    }
}
