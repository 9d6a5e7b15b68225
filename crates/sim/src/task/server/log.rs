//! The thread that writes an append-only file and syncs it from time to time, as Redis does with `appendfsync everysec`.

use wakepath_policies::psd::LeaseTrigger;

use crate::core::basics::{CpuId, Direction, TaskId, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::task::events::TaskTurn;
use crate::task::state::Step;

/// Most bytes of one write of the file, and the page that each is a multiple of.
const MOST_BYTES: u64 = 1 << 20;
const PAGE: u64 = 4096;

impl<O: Observer> Engine<'_, O> {
    /// Starts the timer until the next sync.
    pub(super) fn start_log_timer(&mut self, cpu: CpuId, task: TaskId, interval: u64) {
        let at = self.context.now().saturating_add(interval);
        let slack = self.setup.cpu.timer_slack();
        self.start_high_resolution_timer(cpu, at.saturating_add(slack), slack, Timer::Task(task));
    }

    /// Begins a sync: writes what was appended, or goes to sleep if nothing was.
    pub(super) fn begin_log_step(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let now = self.context.now();
        let Some(server) = self.workload.server.as_mut() else {
            return TaskTurn::Free;
        };
        if server.log.unwritten == 0 {
            return self.sleep_until_next_sync(cpu, task);
        }
        server.log.began = Some(now);
        self.write_log_or_flush(cpu, task)
    }

    /// Submits the file's next write; after the last one, a flush.
    fn write_log_or_flush(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let Some(server) = self.workload.server.as_mut() else {
            return TaskTurn::Free;
        };
        let log = &mut server.log;
        let bytes = log.unwritten.min(MOST_BYTES);
        log.unwritten -= bytes;
        log.writing = bytes.next_multiple_of(PAGE);
        let bytes = log.writing;
        let mut work = self.begin_submission(task, bytes);
        if bytes == 0 {
            work = self.setup.io.flush_submission_work();
            let own = &mut self.tasks[task];
            own.set_work_of_step(work);
            own.requests.submission = work;
        }
        self.start_work(cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    /// Follows up a finished segment of work of the thread.
    pub(super) fn end_log_segment(&mut self, cpu: CpuId, task: TaskId, step: Step) -> TaskTurn {
        let Some(writing) = self
            .workload
            .server
            .as_ref()
            .map(|server| server.log.writing)
        else {
            return TaskTurn::Free;
        };
        match step {
            Step::Submit => {
                self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
                if writing > 0 {
                    let _ = self.submit_request(cpu, task, Direction::Write, writing);
                } else {
                    self.send_flush_to_all_drives(cpu, task);
                }
                self.wait_for_own_requests(cpu, task)
            }
            Step::Resume => {
                // No figure of requests counts a write or flush of the log.
                self.take_back_requests(cpu, task, |_, _| ());
                if writing > 0 {
                    return self.write_log_or_flush(cpu, task);
                }
                self.record_sync();
                self.sleep_until_next_sync(cpu, task)
            }
            _ => self.begin_log_step(cpu, task),
        }
    }

    /// Records the sync that is over now.
    fn record_sync(&mut self) {
        let (now, setup) = (self.context.now(), self.setup.server());
        if let Some((server, setup)) = self.workload.server.as_mut().zip(setup)
            && let Some(began) = server.log.began.take()
        {
            let counts_from = setup.span_with_counted_requests().0;
            self.recorder.record_fsync_call(began, now, counts_from);
        }
    }

    fn sleep_until_next_sync(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        if let Some(log) = self.setup.server().and_then(|server| server.log) {
            self.start_log_timer(cpu, task, log.interval);
        }
        self.tasks[task].step = Step::Wait;
        self.put_current_task_to_sleep(cpu, task, false);
        TaskTurn::Free
    }
}
