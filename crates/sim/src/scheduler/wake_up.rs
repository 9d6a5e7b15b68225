//! Tasks wake up, fall asleep, and are looked at by each tick.

use crate::core::basics::{CpuId, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::frequency::clocks::report::Report;

impl<O: Observer> Engine<'_, O> {
    /// Puts a task on the run queue of `to`; the code that wakes it runs on `from`, if on any CPU.
    /// Returns how long `to` takes to hear of it.
    pub(crate) fn wake_task(&mut self, from: Option<CpuId>, task: TaskId, to: CpuId) -> u64 {
        let t = &mut self.tasks[task];
        let iowait = t.end_iowait();
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

    /// The current task goes to sleep.
    #[inline(always)]
    pub(crate) fn sleep(&mut self, cpu: CpuId, task: TaskId, iowait: bool) {
        let t = &mut self.tasks[task];
        t.fall_asleep(iowait);
        t.entity.settle(self.context.now());
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

    /// The tick of a CPU looks at its running task.
    pub(crate) fn scheduler_tick(&mut self, cpu: CpuId) {
        if self.cpus[cpu].run_queue.current().is_some() {
            self.account_and_report(cpu, false, true, None);
            self.fair_tasks_ran(cpu);
            self.check_turn(cpu);
            self.prefer_core(cpu);
            self.raise_misfit(cpu);
            self.stop_tick(cpu);
        }
    }
}
