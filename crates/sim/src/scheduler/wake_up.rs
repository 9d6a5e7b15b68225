//! Tasks wake up, fall asleep, and are looked at by each tick.

use crate::core::basics::{CpuId, NotificationDelay, TaskId};
use crate::core::observer::{Observer, WakeUpSeen};
use crate::engine::Engine;
use crate::frequency::clocks::report::Report;

impl<O: Observer> Engine<'_, O> {
    /// Puts a task on the run queue of `to`; the code that wakes it runs on `from`, if on any CPU.
    /// Returns how long `to` takes to hear of it.
    pub(crate) fn wake_task(
        &mut self,
        from: Option<CpuId>,
        task: TaskId,
        to: CpuId,
    ) -> NotificationDelay {
        let t = &mut self.tasks[task];
        let iowait = t.end_io_wait();
        if iowait {
            self.cpus[t.cpu].run_queue.count_end_of_io_wait();
        }
        self.context.tell_observer_of_wake_up(WakeUpSeen {
            task,
            cpu: from,
            target: to,
            iowait,
        });
        if t.cpu != to {
            self.migrate_task(task, to);
        }
        let (t, c) = (&mut self.tasks[task], &self.cpus[to]);
        let slept = !std::mem::replace(&mut t.runnable, true);
        let least = c.run_queue.least_vruntime_at_last_pick();
        self.setup.scheduler.place_woken_task(&mut t.entity, least);
        // A waker in another cluster leaves the enqueueing to the woken task's CPU.
        let local = from.is_none_or(|f| f == to || self.cpus[f].cluster != c.cluster);
        if iowait {
            self.report_to_cpufreq(to, Report::end_of_wait_for_io(local));
        }
        let ran = self.cpus[to].runs_task();
        self.account_task_change(to, ran, local, task, slept.then_some(true));
        if self.cpus[to].run_queue.current_task().is_none() {
            self.enqueue(to, task);
        } else {
            let takes_over = self.would_preempt_running(to, task);
            self.enqueue(to, task);
            if takes_over && from == Some(to) {
                self.cpus[to].run_queue.request_resched();
            } else if takes_over {
                self.preempt_running_task(to);
            }
        }
        self.tell_idle_cpu_of_new_task(from, to)
    }

    /// Puts a CPU's current task to sleep, in I/O wait or not.
    #[inline(always)]
    pub(crate) fn put_current_task_to_sleep(&mut self, cpu: CpuId, task: TaskId, iowait: bool) {
        self.context.tell_observer_of_sleep(cpu, task);
        let t = &mut self.tasks[task];
        t.note_asleep(iowait);
        t.entity.settle_utilisation(self.context.now());
        self.cpus[cpu].run_queue.remove_sleeping_current(iowait);
        self.tell_observer_of_runnable_tasks(cpu);
        self.account_task_change(cpu, false, true, task, Some(false));
    }

    /// A task of a CPU wakes up there or goes to sleep. `change`: whether it can run from now on, if it could not before, or the other
    /// way round. schedutil's own threads count for nothing (`dl_entity_is_special()`).
    #[inline(always)]
    fn account_task_change(
        &mut self,
        cpu: CpuId,
        ran: bool,
        local: bool,
        task: TaskId,
        change: Option<bool>,
    ) {
        if self.tasks[task].is_sugov() {
            return self.account_utilisation(cpu, ran);
        }
        self.account_and_report_utilisation(cpu, ran, local, change.map(|can| (task, can)));
        if change == Some(false) {
            self.charge_fair_server(cpu);
        }
    }

    /// Handles the scheduler's part of a CPU's tick: load, preemption, and balancing of its running task.
    pub(crate) fn handle_scheduler_tick(&mut self, cpu: CpuId) {
        if self.cpus[cpu].run_queue.current_task().is_some() {
            self.account_and_report_utilisation(cpu, false, true, None);
            self.charge_fair_server(cpu);
            self.end_turn_and_give_away_at_tick(cpu);
            self.move_lone_task_to_faster_core(cpu);
            self.move_misfit_task_to_bigger_cpu(cpu);
            self.stop_tick_if_nohz_full(cpu);
        }
    }
}
