//! Run queues: tasks are queued, picked, moved and preempted.

use crate::core::basics::{CpuId, NotificationDelay, TaskId};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::scheduler::placement::Placement;

impl<O: Observer> Engine<'_, O> {
    /// The state by which a CPU for a task is chosen.
    #[inline(always)]
    pub(crate) fn placement(&self) -> Placement<'_> {
        Placement {
            setup: self.setup,
            cpus: &self.cpus,
            tasks: &self.tasks,
        }
    }

    /// Chooses the CPU for a woken task: see [`Placement::choose_cpu_for_woken_task`].
    #[inline(always)]
    pub(crate) fn choose_cpu_for_woken_task(
        &self,
        task: TaskId,
        waker: Option<(CpuId, bool)>,
    ) -> CpuId {
        self.placement().choose_cpu_for_woken_task(task, waker)
    }

    /// Puts a task on a CPU's run queue, where it must not be yet.
    #[inline]
    pub(crate) fn enqueue(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu].run_queue.waiting.push_back(task);
        self.scheduler.waiting += 1;
        self.tell_observer_of_runnable_tasks(cpu);
        self.restart_tick_if_nohz_full(cpu);
    }

    /// Moves a task to another CPU, with its share of the utilisation and its virtual run time.
    #[inline(never)]
    pub(crate) fn migrate_task(&mut self, task: TaskId, to: CpuId) {
        let from = self.tasks[task].cpu;
        if from == to {
            return;
        }
        self.account_utilisation(from, self.cpus[from].runs_task());
        self.account_utilisation(to, self.cpus[to].runs_task());
        let (least_from, least_to) = (
            self.cpus[from].run_queue.least_vruntime,
            self.cpus[to].run_queue.least_vruntime,
        );
        let moved = !self.placement().cpus_on_same_core(from).contains(&to);
        let t = &mut self.tasks[task];
        t.move_to_cpu(to, moved.then_some(self.setup.scheduler.migration_cycles));
        t.entity.settle_utilisation(self.context.now());
        t.entity.rebase_vruntime(least_from, least_to);
        let load = t.entity.utilisation_share();
        self.cpus[from].run_queue.remove_task_utilisation(load);
        self.cpus[to].run_queue.add_task_utilisation(load);
        if self.setup.frequency.runnable_tasks_raise_frequency() {
            self.move_runnable_share(task, from, to);
        }
        self.scheduler.migrations += 1;
    }

    /// Whether a woken task about to be queued on a CPU preempts the running task.
    pub(crate) fn would_preempt_running(&self, cpu: CpuId, task: TaskId) -> bool {
        let c = &self.cpus[cpu];
        let Some(running) = c.run_queue.current else {
            return false;
        };
        let mut entity = self.tasks[running].entity.clone();
        entity.add_run_time(c.unaccounted_run_time(self.context.now()), 0);
        let woken = &self.tasks[task].entity;
        self.setup.scheduler.tunables.preempts(woken, &entity)
    }

    /// Interrupts another CPU's running task, so that the CPU looks at the run queue.
    pub(crate) fn preempt_running_task(&mut self, cpu: CpuId) {
        self.cpus[cpu].run_queue.need_resched = true;
        self.interrupt_running_task(cpu);
    }

    /// Picks the task that a CPU, with nothing in progress, runs next; `None` if no task wants to run.
    #[inline(always)]
    pub(crate) fn pick_task_to_run(&mut self, cpu: CpuId) -> Option<TaskId> {
        let c = &mut self.cpus[cpu];
        if std::mem::take(&mut c.run_queue.need_resched)
            && let Some(running) = c.run_queue.current.take()
        {
            c.run_queue.waiting.push_back(running);
            self.scheduler.waiting += 1;
        }
        if c.run_queue.current.is_none() {
            let tasks = &self.tasks;
            c.run_queue.current = match c.run_queue.waiting.len() {
                0 => return None,
                1 => c.run_queue.waiting.pop_front(),
                // Among equal tasks, the first in the queue is picked.
                _ => (c.run_queue.waiting.iter().enumerate())
                    .min_by_key(|(_, task)| tasks[**task].entity.run_order_key())
                    .map(|(first, _)| first)
                    .and_then(|first| c.run_queue.waiting.remove_at(first)),
            };
            c.run_queue.picked_at = self.context.now();
            self.scheduler.waiting -= 1;
            if let Some(task) = c.run_queue.current {
                let t = &mut self.tasks[task];
                c.run_queue.least_vruntime = c.run_queue.least_vruntime.max(t.entity.vruntime);
                let mut refill = t.take_cache_refill_work();
                if c.run_queue
                    .ran_last
                    .replace(task)
                    .is_some_and(|last| last != task)
                {
                    refill = refill.max(self.setup.scheduler.switch_cycles);
                }
                c.add_cache_refill_work(refill);
            }
        }
        c.run_queue.account_utilisation(self.context.now(), 0);
        c.run_queue.current
    }

    /// Lets waiting tasks run before the current task, if any wait (`sched_yield()`).
    pub(crate) fn yield_to_waiting_tasks(&mut self, cpu: CpuId, task: TaskId) {
        let run_queue = &mut self.cpus[cpu].run_queue;
        let waiting = run_queue.waiting.iter();
        let others = waiting.map(|other| self.tasks[*other].entity.vruntime);
        if let Some(first) = others.min() {
            let entity = &mut self.tasks[task].entity;
            entity.vruntime = entity.vruntime.max(first);
            run_queue.need_resched = true;
        }
    }

    /// Tells an idle CPU about a new task on its run queue. Returns how long that takes in ns; 0 for a CPU that looks by itself.
    pub(crate) fn tell_idle_cpu_of_new_task(
        &mut self,
        from: Option<CpuId>,
        to: CpuId,
    ) -> NotificationDelay {
        let c = &self.cpus[to];
        if from == Some(to) || !c.is_in_idle_state() {
            // The CPU looks at the run queue after its present work.
            return 0;
        }
        let after = if c.idle_state_watches_need_resched() {
            0
        } else {
            self.setup.scheduler.ipi
        };
        let at = self.context.now() + after;
        if at < self.context.due_time_or_never(Slot::Phase(to)) {
            self.context.schedule(Slot::Phase(to), at);
        }
        after
    }
}
