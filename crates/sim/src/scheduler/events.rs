//! Which CPU a task runs on, and when.
//!
//! Placement follows `select_task_rq_fair()` of Linux 6.1: a woken task stays where it was or comes
//! to its waker, whichever is idle, else to an idle CPU of that cluster, whole idle cores first.
//! Clusters of unequal CPUs are searched together. Balancing is simpler than the kernel's: a CPU
//! that runs out of tasks takes a waiting one, and a CPU with waiting tasks gives one away to an
//! idle CPU at its tick.

use std::cmp::Reverse;

use wakepath_units::Kilohertz;

use crate::core::basics::{CpuId, TaskId};
use crate::core::calendar::Slot;
use crate::engine::Engine;
use crate::observe::observer::Observer;
use crate::scheduler::state::Entity;

impl<O: Observer> Engine<'_, O> {
    fn is_idle(&self, cpu: CpuId) -> bool {
        !self.cpus[cpu].run_queue.has_task()
    }

    pub(crate) fn is_allowed(&self, task: TaskId, cpu: CpuId) -> bool {
        self.may_use(&self.tasks[task].entity, cpu)
    }

    fn may_use(&self, entity: &Entity, cpu: CpuId) -> bool {
        match entity.allowed {
            None => self.setup.scheduler.isolated.get(cpu) != Some(&true),
            Some(set) => self.setup.programs.allows(set, cpu),
        }
    }

    /// The CPUs that share a core with this one, itself included.
    pub(crate) fn core(&self, cpu: CpuId) -> std::ops::Range<CpuId> {
        let cluster = self.setup.topology.cluster(self.cpus[cpu].cluster);
        cluster.core(cpu)
    }

    /// The CPU on which a woken task runs. `waker` is the CPU of the task that wakes it, if it is a
    /// task, and whether that is about to sleep.
    #[inline(always)]
    pub(crate) fn choose_cpu(&self, task: TaskId, waker: Option<(CpuId, bool)>) -> CpuId {
        let t = &self.tasks[task];
        // The commonest case of what follows.
        let stays = waker.is_none() && !self.setup.cpu.shares_cores() && t.entity.allowed.is_none();
        if stays && self.is_idle(t.cpu) && self.fits(task, t.cpu) {
            return t.cpu;
        }
        self.search_cpu(task, waker)
    }

    #[inline(never)]
    fn search_cpu(&self, task: TaskId, waker: Option<(CpuId, bool)>) -> CpuId {
        let previous = self.tasks[task].cpu;
        let mut near = previous;
        if let Some((cpu, sleeps_next)) = waker
            && sleeps_next
            && self.cpus[cpu].run_queue.waiting.is_empty()
            && self.is_allowed(task, cpu)
        {
            // The waker leaves its CPU to the task that it wakes.
            near = cpu;
        }
        if !self.fits(task, near)
            && let Some(cpu) = self.bigger_idle_cpu(task, near)
        {
            return cpu;
        }
        let usable = |cpu: CpuId| self.is_idle(cpu) && self.is_allowed(task, cpu);
        let cluster = self.cpus[near].cluster;
        let local = self.cpus[previous].cluster == cluster;
        for cpu in [Some(near), local.then_some(previous)]
            .into_iter()
            .flatten()
        {
            if usable(cpu) {
                return cpu;
            }
        }
        // Whom an interrupt wakes is looked for from the first CPU on.
        let from = waker.map_or(0, |_| near);
        if let Some(cpu) = self.idle_cpu_of(cluster, from, task) {
            return cpu;
        }
        if self.setup.topology.is_unequal() {
            // Never from a bigger to a smaller one: that takes a balance.
            let least = self.setup.topology.cluster(cluster).capacity();
            let mut others = (0..self.setup.topology.clusters().len())
                .filter(|c| *c != cluster && self.setup.topology.cluster(*c).capacity() >= least);
            if let Some(cpu) = others.find_map(|c| self.idle_cpu_of(c, 0, task)) {
                return cpu;
            }
        }
        let allowed = |cpu: &CpuId| self.is_allowed(task, *cpu);
        [near, previous]
            .into_iter()
            .find(allowed)
            .or_else(|| (0..self.cpus.len()).find(allowed))
            .unwrap_or(previous)
    }

    /// An idle CPU of a cluster, of an idle core if there is any: the next one after `from`, if that is a
    /// CPU of the cluster.
    fn idle_cpu_of(&self, cluster: usize, from: CpuId, task: TaskId) -> Option<CpuId> {
        let cluster = self.setup.topology.cluster(cluster);
        let cpus = cluster.cpus();
        let mut thread = None;
        // Round the cluster as `for_each_cpu_wrap()`: a search that always began with the first CPUs would
        // take them from the tasks that left them just now, and leave the last ones unused.
        let begin = if cpus.contains(&from) {
            from
        } else {
            cpus.start
        };
        for cpu in (begin..cpus.end).chain(cpus.start..begin) {
            if !self.is_idle(cpu) || !self.is_allowed(task, cpu) {
                continue;
            }
            if cluster.threads_per_core() == 1 || self.core(cpu).all(|c| self.is_idle(c)) {
                return Some(cpu);
            }
            thread = thread.or(Some(cpu));
        }
        thread
    }

    /// The CPU on which a new task begins, where so many have begun on each CPU: spread over the clusters
    /// by their capacity, but two by two, so that those that talk to each other begin side by side. Ties go
    /// to the cluster that is home, and within a cluster to a core that has none yet.
    pub(crate) fn first_cpu(&self, entity: &Entity, begun: &[usize]) -> CpuId {
        let allowed = |cpu: &CpuId| self.may_use(entity, *cpu);
        let tasks = |cpus: std::ops::Range<CpuId>| begun[cpus].iter().sum::<usize>();
        let topology = &self.setup.topology;
        let home = self.setup.scheduler.home;
        let clusters = (topology.clusters().iter().enumerate())
            .filter(|(_, cluster)| cluster.cpus().any(|cpu| allowed(&cpu)))
            .min_by_key(|(number, cluster)| {
                let capacity = cluster.capacity() as usize * cluster.cpus().len();
                let pairs = tasks(cluster.cpus()) / 2;
                (
                    pairs * 1_000_000 / capacity.max(1),
                    *number != home,
                    *number,
                )
            });
        let chosen = clusters.map_or(home, |(number, _)| number);
        let cpus = topology.cluster(chosen).cpus();
        cpus.clone()
            .filter(allowed)
            .min_by_key(|cpu| {
                // Where the balancer would take it to: the fastest core first.
                let rank = Reverse(self.rank(chosen, *cpu));
                (begun[*cpu], tasks(self.core(*cpu)), rank, *cpu)
            })
            .unwrap_or(cpus.start)
    }

    /// The highest frequency of a CPU, where the scheduler prefers the fastest cores of its cluster.
    fn rank(&self, cluster: usize, cpu: CpuId) -> Option<Kilohertz> {
        let clocks = self.setup.frequency.cluster(cluster);
        clocks.prefers_cores().then(|| clocks.own_limit(cpu))
    }

    /// The CPU on which a new thread begins, where so many have begun on each CPU: one without a thread, wherever there is one.
    ///
    /// A thread is put into the group with the most idle CPUs, whatever their size, and there on an idle core
    /// (`find_idlest_group()`, `find_idlest_group_cpu()`, Linux 6.1 to 6.12). Threads of rt-app wait for each other before they
    /// begin, so that all of a file's begin at once. Groups of equal CPUs may differ by two tasks, as NUMA nodes may
    /// (`adjust_numa_imbalance()`).
    pub(crate) fn idlest_cpu(&self, entity: &Entity, begun: &[usize]) -> CpuId {
        let free: Vec<bool> = (0..self.cpus.len())
            .map(|cpu| begun[cpu] == 0 && self.may_use(entity, cpu))
            .collect();
        if !free.contains(&true) {
            return self.first_cpu(entity, begun);
        }
        let tasks = |range: std::ops::Range<CpuId>| begun[range].iter().sum::<usize>();
        let topology = &self.setup.topology;
        let home = self.setup.scheduler.home;
        let clusters = (topology.clusters().iter().enumerate())
            .filter(|(_, cluster)| free[cluster.cpus()].contains(&true))
            .min_by_key(|(number, cluster)| {
                let cpus = cluster.cpus();
                let order = if topology.is_unequal() {
                    let idle = free[cpus].iter().filter(|free| **free).count();
                    self.cpus.len() - idle
                } else {
                    tasks(cpus.clone()) / 2 * 1_000_000 / cpus.len().max(1)
                };
                (order, *number != home, *number)
            });
        let Some((number, cluster)) = clusters else {
            return self.first_cpu(entity, begun);
        };
        (cluster.cpus().filter(|cpu| free[*cpu]))
            .min_by_key(|cpu| {
                // Where the balancer would take it to: the fastest core first.
                let rank = Reverse(self.rank(number, *cpu));
                (tasks(self.core(*cpu)), rank, *cpu)
            })
            .unwrap_or(cluster.cpus().start)
    }

    /// Whether a CPU is big enough for a task: its utilisation takes at most 4/5 of it (`fits_capacity()`, Linux 6.1).
    #[inline(always)]
    fn fits(&self, task: TaskId, cpu: CpuId) -> bool {
        !self.setup.topology.is_unequal() || {
            let capacity = self
                .setup
                .topology
                .cluster(self.cpus[cpu].cluster)
                .capacity();
            self.tasks[task].entity.load().get() * 5 <= capacity * 4
        }
    }

    /// An idle CPU of a cluster of bigger ones.
    fn bigger_idle_cpu(&self, task: TaskId, than: CpuId) -> Option<CpuId> {
        let capacity = self
            .setup
            .topology
            .cluster(self.cpus[than].cluster)
            .capacity();
        (0..self.setup.topology.clusters().len())
            .filter(|c| self.setup.topology.cluster(*c).capacity() > capacity)
            .find_map(|c| self.idle_cpu_of(c, 0, task))
    }

    /// At a tick: takes a CPU's task to a bigger one that idles, if it is too big for its own.
    ///
    /// The kernel's bigger CPUs look for such tasks when they balance (`group_misfit_task`, Linux 6.1).
    #[inline]
    pub(crate) fn raise_misfit(&mut self, cpu: CpuId) {
        if self.setup.topology.is_unequal() {
            self.pull_misfit(cpu);
        }
    }

    #[inline(never)]
    fn pull_misfit(&mut self, cpu: CpuId) {
        let Some(task) = self.cpus[cpu].run_queue.current else {
            return;
        };
        if self.tasks[task].is_bound() {
            return;
        }
        self.tasks[task].entity.settle(self.now);
        if self.fits(task, cpu) {
            return;
        }
        if let Some(to) = self.bigger_idle_cpu(task, cpu) {
            self.cpus[cpu].run_queue.current = None;
            self.wake_task(Some(cpu), task, to);
        }
    }

    /// The CPU on which a new process of a job begins.
    ///
    /// A process is put into the cluster with the most idle CPUs (`find_idlest_group()`, Linux 6.1 to 6.12). fio's sleep from
    /// then on until all have been made, so that clusters of unequal CPUs look the same to each of them: home, as long as it
    /// has a CPU without a process.
    pub(crate) fn first_cpu_of_process(&self, entity: &Entity, begun: &[usize]) -> CpuId {
        let home = self.setup.scheduler.home;
        let mut cpus = self.setup.topology.cluster(home).cpus();
        let free = cpus.find(|cpu| begun[*cpu] == 0 && self.may_use(entity, *cpu));
        match free {
            Some(cpu) if self.setup.topology.is_unequal() => cpu,
            _ => self.first_cpu(entity, begun),
        }
    }

    /// Puts a task on the run queue of a CPU, where it is not yet.
    #[inline]
    pub(crate) fn enqueue(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu].run_queue.waiting.push_back(task);
        self.scheduler.waiting += 1;
        self.observe_runnable(cpu);
        self.restart_tick(cpu);
    }

    /// Takes its share of utilisation and its run time to another CPU.
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
        let moved = !self.core(from).contains(&to);
        let t = &mut self.tasks[task];
        t.move_to(to, moved.then_some(self.setup.scheduler.migration_cycles));
        t.entity.settle(self.now);
        t.entity.migrate(least_from, least_to);
        let load = t.entity.load();
        self.cpus[from].run_queue.remove_load(load);
        self.cpus[to].run_queue.add_load(load);
        if self.setup.frequency.counts_runnable() {
            self.move_runnable(task, from, to);
        }
        self.scheduler.migrations += 1;
    }

    /// Whether a task that is about to be queued on a CPU takes it from the running one.
    pub(crate) fn takes_over(&self, cpu: CpuId, task: TaskId) -> bool {
        let c = &self.cpus[cpu];
        let Some(running) = c.run_queue.current else {
            return false;
        };
        let mut entity = self.tasks[running].entity.clone();
        entity.charge(c.unaccounted_run(self.now), 0);
        let woken = &self.tasks[task].entity;
        self.setup.scheduler.tunables.preempts(woken, &entity)
    }

    /// Has the running task of another CPU interrupted, which sees then what there is to run.
    pub(crate) fn reschedule(&mut self, cpu: CpuId) {
        self.cpus[cpu].run_queue.need_resched = true;
        self.break_off(cpu);
    }

    /// Settles which task of its run queue a CPU runs now, if any. It has not run anything until now.
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
            c.run_queue.picked_at = self.now;
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
        c.run_queue.account(self.now, 0);
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

    /// At a tick: whether the running task's turn is over, and whether an idle CPU could help.
    pub(crate) fn check_turn(&mut self, cpu: CpuId) {
        let c = &self.cpus[cpu];
        let (Some(running), false) = (c.run_queue.current, c.run_queue.waiting.is_empty()) else {
            return;
        };
        let waiting = c.run_queue.waiting.iter().map(|t| &self.tasks[*t].entity);
        let ran = self.now - c.run_queue.picked_at;
        let running = &self.tasks[running].entity;
        if self
            .setup
            .scheduler
            .tunables
            .turn_is_over(running, ran, waiting)
        {
            self.cpus[cpu].run_queue.need_resched = true;
        }
        self.give_away(cpu);
    }

    /// Gives a waiting task to an idle CPU, of its own cluster if possible.
    fn give_away(&mut self, cpu: CpuId) {
        let own = self.cpus[cpu].cluster;
        let others =
            (0..self.setup.topology.clusters().len()).filter(|c| *c != own && self.helps(own, *c));
        let clusters: Vec<usize> = std::iter::once(own).chain(others).collect();
        let queue = &self.cpus[cpu].run_queue.waiting;
        let found = queue.iter().enumerate().find_map(|(index, task)| {
            if self.tasks[*task].is_bound() {
                return None;
            }
            let to = clusters
                .iter()
                .find_map(|c| self.idle_cpu_of(*c, 0, *task))?;
            Some((index, *task, to))
        });
        if let Some((index, task, to)) = found {
            self.cpus[cpu].run_queue.waiting.remove(index);
            self.scheduler.waiting -= 1;
            self.wake_task(Some(cpu), task, to);
        }
    }

    /// At a tick: takes a CPU's only task to the fastest idle core of its cluster, if that is faster than its own.
    ///
    /// So does asymmetric packing, which amd-pstate asks for (ITMT): the tick wakes a preferred CPU that sleeps, which balances and
    /// pulls the running task (`nohz_balancer_kick()`, `sched_group_asym()`, Linux 6.9 to 6.12). In the kernel the first idle CPU that is
    /// preferred pulls, so that a task may take several steps to the fastest one.
    #[inline]
    pub(crate) fn prefer_core(&mut self, cpu: CpuId) {
        let cluster = self.cpus[cpu].cluster;
        if self.setup.frequency.cluster(cluster).prefers_cores() {
            self.pull_to_faster_core(cpu);
        }
    }

    #[inline(never)]
    fn pull_to_faster_core(&mut self, cpu: CpuId) {
        let c = &self.cpus[cpu];
        let Some(task) = c.run_queue.current else {
            return;
        };
        if !c.run_queue.waiting.is_empty()
            || self.tasks[task].is_bound()
            || !self.has_core_alone(cpu)
        {
            return;
        }
        let cluster = self.setup.frequency.cluster(c.cluster);
        let own = cluster.own_limit(cpu);
        let cpus = self.setup.topology.cluster(c.cluster).cpus();
        let idle = cpus.filter(|to| cluster.own_limit(*to) > own).filter(|to| {
            self.is_idle(*to) && self.has_core_alone(*to) && self.is_allowed(task, *to)
        });
        let Some(to) = idle.min_by_key(|to| (Reverse(cluster.own_limit(*to)), *to)) else {
            return;
        };
        self.cpus[cpu].run_queue.current = None;
        self.wake_task(Some(cpu), task, to);
    }

    /// Whether all other CPUs of a CPU's core idle.
    fn has_core_alone(&self, cpu: CpuId) -> bool {
        let mut others = self.core(cpu).filter(|other| *other != cpu);
        others.all(|other| self.is_idle(other))
    }

    /// Whether a waiting task is better off on an idle CPU of another cluster: a smaller CPU is
    /// worth it only when there are more tasks here than CPUs.
    fn helps(&self, here: usize, there: usize) -> bool {
        let topology = &self.setup.topology;
        let (here, there) = (topology.cluster(here), topology.cluster(there));
        there.capacity() >= here.capacity() || {
            let cpus = &self.cpus[here.cpus()];
            let tasks = cpus.iter().map(|c| c.run_queue.tasks());
            tasks.sum::<usize>() > cpus.len()
        }
    }

    /// A CPU whose last task has gone to sleep takes a waiting task from another one, of its own cluster if
    /// possible. Returns whether it found any.
    #[inline]
    pub(crate) fn take_over_waiting(&mut self, cpu: CpuId) -> bool {
        self.scheduler.waiting > 0 && !self.cpus[cpu].is_in_idle_loop() && self.find_waiting(cpu)
    }

    #[inline(never)]
    fn find_waiting(&mut self, cpu: CpuId) -> bool {
        let own = self.cpus[cpu].cluster;
        let mut best: Option<(bool, usize, CpuId, usize)> = None;
        for (other, c) in self.cpus.iter().enumerate() {
            // Whoever runs nothing is about to run what waits.
            if c.run_queue.waiting.is_empty() || c.run_queue.current.is_none() || other == cpu {
                continue;
            }
            let local = c.cluster == own;
            let length = c.run_queue.waiting.len();
            if !local && !self.helps(c.cluster, own) {
                continue;
            }
            if best.is_some_and(|(l, most, ..)| (l, most) >= (local, length)) {
                continue;
            }
            let movable =
                |task: &TaskId| !self.tasks[*task].is_bound() && self.is_allowed(*task, cpu);
            if let Some(index) = c.run_queue.waiting.iter().position(movable) {
                best = Some((local, length, other, index));
            }
        }
        let Some((.., from, index)) = best else {
            return false;
        };
        let Some(task) = self.cpus[from].run_queue.waiting.remove(index) else {
            return false;
        };
        self.observe_runnable(from);
        self.migrate(task, cpu);
        self.cpus[cpu].run_queue.waiting.push_back(task);
        self.observe_runnable(cpu);
        true
    }

    /// Tells a CPU that there is a task on its run queue now. Returns how long that takes.
    pub(crate) fn call(&mut self, from: Option<CpuId>, to: CpuId) -> u64 {
        let c = &self.cpus[to];
        if from == Some(to) || !c.waits_for_work() {
            // It looks at its run queue when it has done what it does.
            return 0;
        }
        let after = if c.watches_for_work() {
            0
        } else {
            self.setup.scheduler.ipi
        };
        let at = self.now + after;
        if at < self.calendar.due(Slot::Phase(to)) {
            self.calendar.schedule(Slot::Phase(to), at);
        }
        after
    }
}
