//! Run queues: tasks are queued, picked, moved and preempted.

use crate::core::basics::{CpuId, TaskId};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::scheduler::placement::Placement;

impl<O: Observer> Engine<'_, O> {
    /// Everything that the choice of a CPU depends on.
    #[inline(always)]
    pub(crate) fn placement(&self) -> Placement<'_> {
        Placement {
            setup: self.setup,
            cpus: &self.cpus,
            tasks: &self.tasks,
        }
    }

    /// The CPU on which a woken task runs: see [`Placement::choose_cpu`].
    #[inline(always)]
    pub(crate) fn choose_cpu(&self, task: TaskId, waker: Option<(CpuId, bool)>) -> CpuId {
        self.placement().choose_cpu(task, waker)
    }

    /// Puts a task on the run queue of a CPU, where it is not yet.
    #[inline]
    pub(crate) fn enqueue(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu].run_queue.waiting.push_back(task);
        self.scheduler.waiting += 1;
        self.observe_runnable(cpu);
        self.restart_tick(cpu);
    }

    /// Moves a task to another CPU, with utilisation share and run time.
    #[inline(never)]
    pub(crate) fn migrate(&mut self, task: TaskId, to: CpuId) {
        let from = self.tasks[task].cpu;
        if from == to {
            return;
        }
        self.account(from, self.cpus[from].runs_task());
        self.account(to, self.cpus[to].runs_task());
        let (least_from, least_to) = (
            self.cpus[from].run_queue.least_vruntime,
            self.cpus[to].run_queue.least_vruntime,
        );
        let moved = !self.placement().core(from).contains(&to);
        let t = &mut self.tasks[task];
        t.move_to(to, moved.then_some(self.setup.scheduler.migration_cycles));
        t.entity.settle(self.context.now());
        t.entity.migrate(least_from, least_to);
        let load = t.entity.load();
        self.cpus[from].run_queue.remove_load(load);
        self.cpus[to].run_queue.add_load(load);
        if self.setup.frequency.counts_runnable() {
            self.move_runnable(task, from, to);
        }
        self.scheduler.migrations += 1;
    }

    /// Whether a task about to be queued on a CPU preempts the running one.
    pub(crate) fn takes_over(&self, cpu: CpuId, task: TaskId) -> bool {
        let c = &self.cpus[cpu];
        let Some(running) = c.run_queue.current else {
            return false;
        };
        let mut entity = self.tasks[running].entity.clone();
        entity.charge(c.unaccounted_run(self.context.now()), 0);
        let woken = &self.tasks[task].entity;
        self.setup.scheduler.tunables.preempts(woken, &entity)
    }

    /// Interrupts another CPU's running task, so that the CPU looks at the run queue.
    pub(crate) fn reschedule(&mut self, cpu: CpuId) {
        self.cpus[cpu].run_queue.need_resched = true;
        self.break_off(cpu);
    }

    /// Settles which task a CPU runs now, if any. The CPU has not run anything until now.
    #[inline(always)]
    pub(crate) fn pick(&mut self, cpu: CpuId) -> Option<TaskId> {
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
                // The first of several equals.
                _ => (c.run_queue.waiting.iter().enumerate())
                    .min_by_key(|(_, task)| tasks[**task].entity.rank())
                    .map(|(first, _)| first)
                    .and_then(|first| c.run_queue.waiting.remove(first)),
            };
            c.run_queue.picked_at = self.context.now();
            self.scheduler.waiting -= 1;
            if let Some(task) = c.run_queue.current {
                let t = &mut self.tasks[task];
                c.run_queue.least_vruntime = c.run_queue.least_vruntime.max(t.entity.vruntime);
                let mut refill = t.take_refill();
                if c.run_queue
                    .ran_last
                    .replace(task)
                    .is_some_and(|last| last != task)
                {
                    refill = refill.max(self.setup.scheduler.switch_cycles);
                }
                c.add_cold_work(refill);
            }
        }
        c.run_queue.account(self.context.now(), 0);
        c.run_queue.current
    }

    /// The current task lets others run, if any wait (`sched_yield()`).
    pub(crate) fn yield_cpu(&mut self, cpu: CpuId, task: TaskId) {
        let run_queue = &mut self.cpus[cpu].run_queue;
        let waiting = run_queue.waiting.iter();
        let others = waiting.map(|other| self.tasks[*other].entity.vruntime);
        if let Some(first) = others.min() {
            let entity = &mut self.tasks[task].entity;
            entity.vruntime = entity.vruntime.max(first);
            run_queue.need_resched = true;
        }
    }

    /// Tells a CPU about a new task on the run queue. Returns how long that takes.
    pub(crate) fn call(&mut self, from: Option<CpuId>, to: CpuId) -> u64 {
        let c = &self.cpus[to];
        if from == Some(to) || !c.waits_for_work() {
            // The CPU looks at the run queue after its present work.
            return 0;
        }
        let after = if c.watches_for_work() {
            0
        } else {
            self.setup.scheduler.ipi
        };
        let at = self.context.now() + after;
        if at < self.context.due(Slot::Phase(to)) {
            self.context.schedule(Slot::Phase(to), at);
        }
        after
    }
}
