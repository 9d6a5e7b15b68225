//! Tasks: waking, running, sleeping.

use wakepath_policies::psd::Grant;

use crate::core::basics::{CpuId, Direction, TaskId};
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::frequency::clocks::report::Report;
use crate::observe::observer::Observer;
use crate::task::kernel_thread::KernelThread;
use crate::task::rtapp::state::{ThreadId, ThreadTask};
use crate::task::state::{Kind, Step};

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
        let work = match &t.kind {
            _ if t.step == Step::Spin => {
                self.spin(cpu, task);
                return true;
            }
            _ if t.step != Step::Wait => t.work_left(),
            Kind::FioProcess(_) => {
                self.plan(cpu, task);
                return true;
            }
            Kind::Thread(_) if !t.requests.completed.is_empty() => self.resume(cpu, task),
            Kind::Thread(thread) => {
                let thread = thread.thread;
                return self.thread_turn(cpu, task, thread);
            }
            // Its work is never to wait for requests.
            Kind::KernelThread(_) => t.work_left(),
        };
        self.execute(cpu, Mode::Task, work);
        true
    }

    /// The current task has done its segment of work.
    #[inline(always)]
    pub(crate) fn tasks_turn(&mut self, cpu: CpuId, task: TaskId) {
        match self.tasks[task].kind {
            Kind::FioProcess(_) => self.jobs_turn(cpu, task),
            Kind::Thread(ThreadTask { thread, writes, .. }) => {
                self.end_thread_segment(cpu, task, thread, writes);
            }
            Kind::KernelThread(KernelThread::Worker) => self.workers_turn(cpu, task),
            Kind::KernelThread(KernelThread::Flusher) => self.calls_turn(cpu, task),
            Kind::KernelThread(KernelThread::Sugov(clock)) => {
                self.begin_frequency_change(clock);
                self.block(cpu, task, false);
            }
        }
    }

    /// A worker has done the work of its source.
    fn workers_turn(&mut self, cpu: CpuId, task: TaskId) {
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

    /// A thread of an rt-app task, which may have `writes` bytes under way, has done its segment of work.
    fn end_thread_segment(&mut self, cpu: CpuId, task: TaskId, thread: ThreadId, writes: u64) {
        match self.tasks[task].step {
            Step::Submit => {
                self.grant_lease(cpu, Grant::on_issue);
                self.submit_request(cpu, task, Direction::Write, writes);
                if let Some(work) = self.deactivate(task) {
                    return self.execute(cpu, Mode::Task, work);
                }
                self.tasks[task].step = Step::Wait;
                return self.block(cpu, task, true);
            }
            Step::Deactivate if self.tasks[task].requests.completed.is_empty() => {
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
        let until = self.tasks[task].spins_until().unwrap_or(self.now);
        self.spin_phase(cpu, until.saturating_sub(self.now));
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
        t.requests.slept = true;
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
        if self.tasks[task].is_sugov() {
            return self.account(cpu, ran);
        }
        self.account_and_report(cpu, ran, local, change.map(|can| (task, can)));
        if change == Some(false) {
            self.fair_tasks_ran(cpu);
        }
    }
}
