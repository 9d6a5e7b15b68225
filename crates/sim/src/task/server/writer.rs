//! Threads of a server that write: submissions and waits, and background writers' rounds, also with reads and CPU work.

use wakepath_policies::psd::LeaseTrigger;

use crate::core::basics::{CpuId, Direction, RequestId, TaskId, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::task::events::TaskTurn;
use crate::task::server::disk_steps::{DiskStep, DiskTotals};
use crate::task::server::setup::RoundPause;
use crate::task::server::state::{ServerRole, ServerTask};
use crate::task::state::{Kind, Step};

/// Most writes of a worker or of the log's thread in flight.
const MOST_IN_FLIGHT_OF_SYNC: u32 = 32;

impl<O: Observer> Engine<'_, O> {
    /// Starts the timer until a thread's next round, so many ns from now.
    pub(super) fn start_round_timer(&mut self, cpu: CpuId, task: TaskId, interval: u64) {
        let at = self.context.now().saturating_add(interval);
        let slack = self.setup.cpu.timer_slack();
        self.start_high_resolution_timer(cpu, at.saturating_add(slack), slack, Timer::Task(task));
    }

    pub(super) fn sleep_until_next_round(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        interval: u64,
    ) -> TaskTurn {
        self.start_round_timer(cpu, task, interval);
        self.sleep_until_woken(cpu, task)
    }

    /// Puts a thread of the server, the current task of a CPU, to sleep until somebody wakes it.
    pub(super) fn sleep_until_woken(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        self.tasks[task].step = Step::Wait;
        self.put_current_task_to_sleep(cpu, task, false);
        TaskTurn::Free
    }

    /// Begins the round of a background writer that was woken, if one is due.
    pub(super) fn begin_background_round(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        writer: usize,
    ) -> TaskTurn {
        self.begin_due_background_round(writer);
        self.take_next_disk_step_or_end_round(cpu, task, writer)
    }

    /// Begins a background writer's round if one is due. Returns whether one is.
    fn begin_due_background_round(&mut self, writer: usize) -> bool {
        let has_volatile_cache = self.setup.volume.has_volatile_cache();
        let Some((server, setup)) = self.workload.server.as_mut().zip(self.setup.server()) else {
            return false;
        };
        let (replies, state) = (server.replies, &mut server.background[writer]);
        state.begin_due_round(&setup.background[writer], replies, has_volatile_cache)
    }

    /// Takes a background writer on. After the last step, the writer begins a due round, or sleeps.
    fn take_next_disk_step_or_end_round(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        writer: usize,
    ) -> TaskTurn {
        loop {
            if let Some(turn) = self.take_next_disk_step(cpu, task) {
                return turn;
            }
            let pause = self
                .setup
                .server()
                .map(|server| server.background[writer].pause);
            if let Some(RoundPause::Time(interval)) = pause {
                return self.sleep_until_next_round(cpu, task, interval);
            }
            if !self.begin_due_background_round(writer) {
                self.let_background_writer_sleep(writer, task);
                return self.sleep_until_woken(cpu, task);
            }
        }
    }

    /// Notes that a background writer's thread sleeps until enough replies.
    pub(super) fn let_background_writer_sleep(&mut self, writer: usize, task: TaskId) {
        if let Some(server) = self.workload.server.as_mut() {
            server.background[writer].sleeper = Some(task);
        }
    }

    /// Wakes background writers with enough replies for a round, from the `cpu` of a worker after a reply.
    pub(super) fn wake_background_writers_with_due_rounds(&mut self, cpu: CpuId) {
        let Some(setup) = self.setup.server() else {
            return;
        };
        for (writer, background) in setup.background.iter().enumerate() {
            let Some(server) = self.workload.server.as_mut() else {
                return;
            };
            let (replies, state) = (server.replies, &mut server.background[writer]);
            if let Some(task) = state.take_sleeper_with_due_round(background, replies) {
                let to = self.choose_cpu_for_woken_task(task, Some((cpu, false)));
                self.wake_task(Some(cpu), task, to);
            }
        }
    }

    /// Begins the next submission of a thread that writes, or waits for its writes; `None` if nothing is left to do.
    pub(super) fn take_next_disk_step(&mut self, cpu: CpuId, task: TaskId) -> Option<TaskTurn> {
        let own = &self.tasks[task];
        let Kind::Server(ServerTask { role, .. }) = own.kind else {
            return None;
        };
        let in_flight = own.requests.in_flight;
        let most_in_flight = match role {
            ServerRole::Background(writer) => self.setup.server()?.background[writer].depth,
            ServerRole::Worker(_) | ServerRole::Log => MOST_IN_FLIGHT_OF_SYNC,
        };
        let steps = self.workload.server.as_mut()?.disk_steps_of_role(role);
        let work = match steps.take_next_step(in_flight, most_in_flight)? {
            DiskStep::Wait => {
                self.tasks[task].requests.wanted = in_flight as usize;
                return Some(self.wait_for_own_requests(cpu, task));
            }
            DiskStep::Work(work) => {
                self.tasks[task].begin_step(Step::Thread, work);
                work
            }
            DiskStep::Read(bytes) | DiskStep::Write(bytes) => self.begin_submission(task, bytes),
            DiskStep::Flush => {
                self.begin_submission(task, 0);
                let work = self.setup.io.flush_submission_work();
                let flushing = &mut self.tasks[task];
                flushing.set_work_of_step(work);
                flushing.requests.submission = work;
                work
            }
        };
        self.start_work(cpu, Mode::Task, work);
        Some(TaskTurn::Busy)
    }

    /// Sends the read, write or flush whose submission is over. Returns its number.
    pub(super) fn send_disk_step(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        role: ServerRole,
    ) -> Option<RequestId> {
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
        let server = self.workload.server.as_mut()?;
        match server.disk_steps_of_role(role).step_in_progress()? {
            DiskStep::Read(bytes) => {
                self.count_disk_call(Direction::Read, bytes);
                Some(self.submit_request(cpu, task, Direction::Read, bytes))
            }
            DiskStep::Write(bytes) => {
                self.count_disk_call(Direction::Write, bytes);
                Some(self.submit_request(cpu, task, Direction::Write, bytes))
            }
            DiskStep::Flush => {
                self.count_flush();
                Some(self.send_flush_to_all_drives(cpu, task))
            }
            DiskStep::Work(_) | DiskStep::Wait => None,
        }
    }

    /// Counts a read or write of the server, after the warm-up.
    pub(super) fn count_disk_call(&mut self, direction: Direction, bytes: u64) {
        if let Some(totals) = self.totals_after_warm_up() {
            totals.add_call(direction, bytes);
        }
    }

    fn count_flush(&mut self) {
        if let Some(totals) = self.totals_after_warm_up() {
            totals.flushes += 1;
        }
    }

    /// Totals of the calls to the disk; `None` in the warm-up.
    fn totals_after_warm_up(&mut self) -> Option<&mut DiskTotals> {
        let (now, setup) = (self.context.now(), self.setup.server()?);
        let server = self.workload.server.as_mut()?;
        (now >= setup.warm_up).then_some(&mut server.totals.disk)
    }

    /// Follows up a finished segment of work of the log's thread, or of a background writer.
    pub(super) fn end_writer_segment(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        role: ServerRole,
    ) -> TaskTurn {
        match self.tasks[task].present_step() {
            Step::Submit => {
                self.send_disk_step(cpu, task, role);
            }
            // No figure of requests counts a write or flush of such a thread.
            Step::Resume => self.take_back_requests(cpu, task, |_, _| ()),
            _ => {}
        }
        match role {
            ServerRole::Background(writer) => {
                self.take_next_disk_step_or_end_round(cpu, task, writer)
            }
            ServerRole::Log | ServerRole::Worker(_) => {
                self.take_next_disk_step_or_end_sync(cpu, task)
            }
        }
    }
}
