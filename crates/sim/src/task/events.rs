//! What a task of any kind does when its CPU picks it, and after each segment of work.

use wakepath_policies::psd::LeaseTrigger;

use crate::core::basics::{CpuId, TaskId};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::page_cache::events::CallTurn;
use crate::task::kernel_thread::KernelThread;
use crate::task::rtapp::state::{ThreadId, ThreadIo, ThreadIoKind, ThreadTask};
use crate::task::server::state::ServerTask;
use crate::task::state::{Kind, Step};

/// What a CPU does after a task's turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskTurn {
    /// The CPU works for the task.
    Busy,
    /// The CPU has nothing in progress, and looks for something to do.
    Free,
    /// A process of the job with this index has ended. The CPU looks for something to do, and other jobs may start.
    Ended(usize),
}

impl From<CallTurn> for TaskTurn {
    /// What a CPU does after a turn of a kernel thread, which never exits.
    fn from(turn: CallTurn) -> Self {
        match turn {
            CallTurn::Works => Self::Busy,
            CallTurn::Sleeps | CallTurn::Over => Self::Free,
        }
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Picks a task on a CPU and starts its work, or decides its next step.
    pub(crate) fn pick_and_run_task(&mut self, cpu: CpuId) -> TaskTurn {
        let Some(task) = self.pick_task_to_run(cpu) else {
            return TaskTurn::Free;
        };
        let t = &self.tasks[task];
        let work = match &t.kind {
            _ if t.spins_until().is_some() => {
                self.continue_spinning(cpu, task);
                return TaskTurn::Busy;
            }
            _ if t.step != Step::Wait => t.work_left(),
            Kind::FioProcess(_) => return self.begin_next_step(cpu, task),
            Kind::FioHelper(_) => return self.begin_next_step_of_helper(cpu, task),
            Kind::Thread(_) | Kind::Server(_) if !t.requests.completed.is_empty() => {
                self.begin_resumption_with_completed(cpu, task)
            }
            Kind::Thread(thread) => {
                let thread = thread.thread;
                return self.take_steps_of_thread(cpu, task, thread);
            }
            Kind::Server(ServerTask { role, .. }) => {
                let role = *role;
                return self.begin_step_of_server(cpu, task, role);
            }
            // A kernel thread never waits for own requests.
            Kind::KernelThread(_) => t.work_left(),
        };
        self.start_work(cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    /// Decides what a CPU's current task does after its finished segment of work.
    #[inline(always)]
    pub(crate) fn end_work_segment(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        match self.tasks[task].kind {
            Kind::FioProcess(_) => self.end_fio_work_segment(cpu, task),
            Kind::FioHelper(_) => self.end_helper_work_segment(cpu, task),
            Kind::Thread(ThreadTask { thread, io, .. }) => {
                self.end_thread_work_segment(cpu, task, thread, io)
            }
            Kind::Server(ServerTask { role, .. }) => self.end_server_segment(cpu, task, role),
            Kind::KernelThread(KernelThread::Worker) => self.end_background_work(cpu, task),
            Kind::KernelThread(KernelThread::Flusher) => {
                self.continue_page_cache_call(cpu, task).into()
            }
            Kind::KernelThread(KernelThread::Journal) => self.continue_commit(cpu, task).into(),
            Kind::KernelThread(KernelThread::JournalWorker) => {
                self.end_work_of_journal_worker(cpu, task).into()
            }
            Kind::KernelThread(KernelThread::Submitter(index)) => {
                self.end_submitter_segment(cpu, task, index)
            }
            Kind::KernelThread(KernelThread::Sugov(clock)) => {
                self.begin_frequency_change(clock);
                self.put_current_task_to_sleep(cpu, task, false);
                TaskTurn::Free
            }
        }
    }

    /// Makes a task that has submitted its requests leave the run queue, and sleep until they end.
    pub(super) fn wait_for_own_requests(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        if let Some(work) = self.begin_leaving_run_queue(task) {
            self.start_work(cpu, Mode::Task, work);
            return TaskTurn::Busy;
        }
        self.sleep_until_own_requests_end(cpu, task)
    }

    pub(super) fn sleep_until_own_requests_end(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let t = &mut self.tasks[task];
        t.step = Step::Wait;
        let iowait = !matches!(t.kind, Kind::Thread(ThreadTask { io_wait: false, .. }));
        self.put_current_task_to_sleep(cpu, task, iowait);
        TaskTurn::Free
    }

    /// Decides what a thread, which may be submitting `io`, does after its finished segment of work.
    fn end_thread_work_segment(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        thread: ThreadId,
        io: ThreadIo,
    ) -> TaskTurn {
        match self.tasks[task].step {
            Step::Submit => {
                self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
                if io.kind == ThreadIoKind::Flush {
                    self.send_flush_to_all_drives(cpu, task);
                } else {
                    self.submit_request(cpu, task, io.direction, io.bytes);
                }
                if io.waits {
                    return self.wait_for_own_requests(cpu, task);
                }
            }
            Step::Deactivate if self.tasks[task].requests.lack_completions() => {
                return self.sleep_until_own_requests_end(cpu, task);
            }
            Step::Deactivate => {
                let work = self.begin_resumption_with_completed(cpu, task);
                self.start_work(cpu, Mode::Task, work);
                return TaskTurn::Busy;
            }
            Step::Resume => self.finish_taken_requests(cpu, task),
            _ => {}
        }
        self.take_steps_of_thread(cpu, task, thread)
    }

    /// Handles a task's expired timer on a CPU: wakes the task.
    pub(crate) fn handle_task_timer(&mut self, cpu: CpuId, task: TaskId) {
        if let Kind::Thread(ThreadTask { thread, .. }) = self.tasks[task].kind {
            self.wake_sleeping_thread(cpu, task, thread);
        } else if !self.tasks[task].runnable {
            // Otherwise a completion has come first.
            self.wake_task(Some(cpu), task, self.choose_cpu_for_woken_task(task, None));
        }
    }

    /// Makes the current task spin, looking at the clock, until `time`.
    pub(crate) fn spin_until(&mut self, cpu: CpuId, task: TaskId, time: u64) {
        self.tasks[task].begin_spin_step(Step::Spin, time);
        self.continue_spinning(cpu, task);
    }

    /// Makes the current task poll until `time` at most, or until there is something to do for it.
    pub(in crate::task) fn poll_until(&mut self, cpu: CpuId, task: TaskId, time: u64) {
        self.tasks[task].begin_spin_step(Step::Poll, time);
        self.continue_spinning(cpu, task);
    }

    /// Whether a task polls, and has something to do at once.
    fn polling_is_over(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        match t.kind {
            Kind::KernelThread(KernelThread::Submitter(index)) => {
                t.step == Step::Poll && self.submitter_stops_spinning(index)
            }
            _ => t.completions_so_far_end_spin(),
        }
    }

    /// Makes the current task go on spinning until the time that its step says.
    #[inline(never)]
    fn continue_spinning(&mut self, cpu: CpuId, task: TaskId) {
        let mut until = self.tasks[task].spins_until().unwrap_or(self.context.now());
        if self.polling_is_over(task) {
            until = self.context.now();
        }
        self.spin_current_task_for(cpu, until.saturating_sub(self.context.now()));
    }
}
