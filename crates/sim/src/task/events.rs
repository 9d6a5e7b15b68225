//! Tasks of any kind run: what a task does when its CPU picks it, and after each segment of work.

use wakepath_policies::psd::Grant;

use crate::core::basics::{CpuId, Direction, TaskId};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::page_cache::events::CallTurn;
use crate::task::kernel_thread::KernelThread;
use crate::task::rtapp::state::{ThreadId, ThreadTask};
use crate::task::state::{Kind, Step};

/// What a task leaves its CPU to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskTurn {
    /// The CPU has something to do.
    Busy,
    /// The CPU looks for what is next.
    Free,
    /// A process of this job has ended. The CPU looks for what is next, and jobs may start after that.
    Ended(usize),
}

impl<O: Observer> Engine<'_, O> {
    /// Runs the task that a CPU picks, if there is one.
    pub(crate) fn run_task(&mut self, cpu: CpuId) -> TaskTurn {
        let Some(task) = self.pick(cpu) else {
            return TaskTurn::Free;
        };
        let t = &self.tasks[task];
        let work = match &t.kind {
            _ if t.step == Step::Spin => {
                self.spin(cpu, task);
                return TaskTurn::Busy;
            }
            _ if t.step != Step::Wait => t.work_left(),
            Kind::FioProcess(_) => return self.plan(cpu, task),
            Kind::Thread(_) if !t.requests.completed.is_empty() => self.resume(cpu, task),
            Kind::Thread(thread) => {
                let thread = thread.thread;
                return self.run_thread(cpu, task, thread);
            }
            // Its work is never to wait for requests.
            Kind::KernelThread(_) => t.work_left(),
        };
        self.execute(cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    /// The current task has done its segment of work.
    #[inline(always)]
    pub(crate) fn end_segment(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        match self.tasks[task].kind {
            Kind::FioProcess(_) => self.end_process_segment(cpu, task),
            Kind::Thread(ThreadTask { thread, writes, .. }) => {
                self.end_thread_segment(cpu, task, thread, writes)
            }
            Kind::KernelThread(KernelThread::Worker) => self.end_background_work(cpu, task),
            Kind::KernelThread(KernelThread::Flusher) => match self.continue_call(cpu, task) {
                CallTurn::Works => TaskTurn::Busy,
                CallTurn::Sleeps | CallTurn::Over => TaskTurn::Free,
            },
            Kind::KernelThread(KernelThread::Sugov(clock)) => {
                self.begin_frequency_change(clock);
                self.sleep(cpu, task, false);
                TaskTurn::Free
            }
        }
    }

    /// A thread of an rt-app task, which may have `writes` bytes under way, has done its segment of work.
    fn end_thread_segment(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        thread: ThreadId,
        writes: u64,
    ) -> TaskTurn {
        match self.tasks[task].step {
            Step::Submit => {
                self.grant_lease(cpu, Grant::grants_on_issue);
                self.submit_request(cpu, task, Direction::Write, writes);
                if let Some(work) = self.deactivate(task) {
                    self.execute(cpu, Mode::Task, work);
                    return TaskTurn::Busy;
                }
                self.tasks[task].step = Step::Wait;
                self.sleep(cpu, task, true);
                return TaskTurn::Free;
            }
            Step::Deactivate if self.tasks[task].requests.completed.is_empty() => {
                self.tasks[task].step = Step::Wait;
                self.sleep(cpu, task, true);
                return TaskTurn::Free;
            }
            Step::Deactivate => {
                let work = self.resume(cpu, task);
                self.execute(cpu, Mode::Task, work);
                return TaskTurn::Busy;
            }
            Step::Resume => self.finish_requests(cpu, task),
            _ => {}
        }
        self.run_thread(cpu, task, thread)
    }

    /// The timer of a task has expired on a CPU.
    pub(crate) fn task_timer(&mut self, cpu: CpuId, task: TaskId) {
        if let Kind::Thread(ThreadTask { thread, .. }) = self.tasks[task].kind {
            self.thread_timer(cpu, task, thread);
        } else {
            self.wake_task(Some(cpu), task, self.choose_cpu(task, None));
        }
    }

    /// The current task begins to look at the clock, until `time`.
    pub(crate) fn spin_until(&mut self, cpu: CpuId, task: TaskId, time: u64) {
        self.tasks[task].begin_spin(time);
        self.spin(cpu, task);
    }

    /// The current task looks at the clock until it has spun for long enough.
    #[inline(never)]
    fn spin(&mut self, cpu: CpuId, task: TaskId) {
        let until = self.tasks[task].spins_until().unwrap_or(self.context.now());
        self.spin_phase(cpu, until.saturating_sub(self.context.now()));
    }
}
