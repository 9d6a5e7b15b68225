//! Tasks that move to another CPU after placement.
//!
//! Balancing is simpler than the kernel's: a CPU without tasks takes a waiting task, and at a tick a CPU with waiting
//! tasks gives one away to an idle CPU.

use std::cmp::Reverse;

use crate::core::basics::{CpuId, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// At a tick: moves a CPU's running task to a bigger idle CPU, if the task is too big for its CPU.
    ///
    /// The kernel's bigger CPUs look for such tasks when they balance (`group_misfit_task`, Linux 6.1).
    #[inline]
    pub(crate) fn move_misfit_task_to_bigger_cpu(&mut self, cpu: CpuId) {
        if self.setup.topology.has_unequal_capacities() {
            self.try_move_misfit_task(cpu);
        }
    }

    #[inline(never)]
    fn try_move_misfit_task(&mut self, cpu: CpuId) {
        let Some(task) = self.cpus[cpu].run_queue.current else {
            return;
        };
        if self.tasks[task].is_bound() {
            return;
        }
        self.tasks[task]
            .entity
            .settle_utilisation(self.context.now());
        if self.placement().task_fits_cpu(task, cpu) {
            return;
        }
        if let Some(to) = self.placement().find_bigger_idle_cpu(task, cpu) {
            self.cpus[cpu].run_queue.current = None;
            self.wake_task(Some(cpu), task, to);
        }
    }

    /// At a tick: ends the running task's turn if it is over, and gives a waiting task to an idle CPU.
    pub(crate) fn end_turn_and_give_away_at_tick(&mut self, cpu: CpuId) {
        let c = &self.cpus[cpu];
        let (Some(running), false) = (c.run_queue.current, c.run_queue.waiting.is_empty()) else {
            return;
        };
        let waiting = c.run_queue.waiting.iter().map(|t| &self.tasks[*t].entity);
        let ran = self.context.now() - c.run_queue.picked_at;
        let running = &self.tasks[running].entity;
        if self
            .setup
            .scheduler
            .tunables
            .turn_is_over(running, ran, waiting)
        {
            self.cpus[cpu].run_queue.need_resched = true;
        }
        self.give_waiting_task_to_idle_cpu(cpu);
    }

    /// Gives one of a CPU's waiting tasks to an idle CPU, in the same cluster if possible.
    fn give_waiting_task_to_idle_cpu(&mut self, cpu: CpuId) {
        let own = self.cpus[cpu].cluster;
        let others = (0..self.setup.topology.clusters().len())
            .filter(|c| *c != own && self.cluster_move_is_worthwhile(own, *c));
        let clusters: Vec<usize> = std::iter::once(own).chain(others).collect();
        let queue = &self.cpus[cpu].run_queue.waiting;
        let found = queue.iter().enumerate().find_map(|(index, task)| {
            if self.tasks[*task].is_bound() {
                return None;
            }
            let placement = self.placement();
            let to =
                (clusters.iter()).find_map(|c| placement.find_idle_cpu_in_cluster(*c, 0, *task))?;
            Some((index, *task, to))
        });
        if let Some((index, task, to)) = found {
            self.cpus[cpu].run_queue.waiting.remove_at(index);
            self.scheduler.waiting -= 1;
            self.wake_task(Some(cpu), task, to);
        }
    }

    /// At a tick: moves a CPU's only task to the fastest idle core in the cluster, if faster than the task's own.
    ///
    /// Asymmetric packing does so, on request by amd-pstate (ITMT): the tick wakes a preferred sleeping CPU, which
    /// balances and pulls the running task (`nohz_balancer_kick()`, `sched_group_asym()`, Linux 6.9 to 6.12). In the
    /// kernel the first idle preferred CPU pulls, so that a task may take several steps to the fastest.
    #[inline]
    pub(crate) fn move_lone_task_to_faster_core(&mut self, cpu: CpuId) {
        let cluster = self.cpus[cpu].cluster;
        if self
            .setup
            .frequency
            .cluster(cluster)
            .scheduler_prefers_fast_cores()
        {
            self.try_move_to_faster_core(cpu);
        }
    }

    #[inline(never)]
    fn try_move_to_faster_core(&mut self, cpu: CpuId) {
        let c = &self.cpus[cpu];
        let Some(task) = c.run_queue.current else {
            return;
        };
        if !c.run_queue.waiting.is_empty()
            || self.tasks[task].is_bound()
            || !self.placement().rest_of_core_is_idle(cpu)
        {
            return;
        }
        let cluster = self.setup.frequency.cluster(c.cluster);
        let own = cluster.highest_frequency_of_cpu(cpu);
        let cpus = self.setup.topology.cluster(c.cluster).cpus();
        let idle = cpus
            .filter(|to| cluster.highest_frequency_of_cpu(*to) > own)
            .filter(|to| {
                self.placement().is_idle(*to)
                    && self.placement().rest_of_core_is_idle(*to)
                    && self.placement().is_allowed(task, *to)
            });
        let Some(to) = idle.min_by_key(|to| (Reverse(cluster.highest_frequency_of_cpu(*to)), *to))
        else {
            return;
        };
        self.cpus[cpu].run_queue.current = None;
        self.wake_task(Some(cpu), task, to);
    }

    /// Whether a waiting task is better off on another cluster's idle CPU: a smaller CPU is worth it only with more
    /// tasks here than CPUs.
    fn cluster_move_is_worthwhile(&self, from_cluster: usize, to_cluster: usize) -> bool {
        let topology = &self.setup.topology;
        let (from_cluster, to_cluster) =
            (topology.cluster(from_cluster), topology.cluster(to_cluster));
        to_cluster.capacity() >= from_cluster.capacity() || {
            let cpus = &self.cpus[from_cluster.cpus()];
            let tasks = cpus.iter().map(|c| c.run_queue.task_count());
            tasks.sum::<usize>() > cpus.len()
        }
    }

    /// A CPU whose last task has gone to sleep takes a waiting task from another CPU, in the own cluster if possible.
    /// Returns whether any was found.
    #[inline]
    pub(crate) fn take_over_waiting_task_before_idle(&mut self, cpu: CpuId) -> bool {
        self.scheduler.waiting > 0
            && !self.cpus[cpu].is_in_idle_loop()
            && self.find_and_take_waiting_task(cpu)
    }

    /// Whether a waiting task may move to a CPU.
    fn task_may_move_to(&self, task: TaskId, cpu: CpuId) -> bool {
        !self.tasks[task].is_bound() && self.placement().is_allowed(task, cpu)
    }

    #[inline(never)]
    fn find_and_take_waiting_task(&mut self, cpu: CpuId) -> bool {
        let own = self.cpus[cpu].cluster;
        let mut best: Option<(bool, usize, CpuId, usize)> = None;
        for (other, c) in self.cpus.iter().enumerate() {
            // A CPU that runs nothing is about to run its own waiting task.
            if c.run_queue.waiting.is_empty() || c.run_queue.current.is_none() || other == cpu {
                continue;
            }
            let local = c.cluster == own;
            let length = c.run_queue.waiting.len();
            if !local && !self.cluster_move_is_worthwhile(c.cluster, own) {
                continue;
            }
            if best.is_some_and(|(l, most, ..)| (l, most) >= (local, length)) {
                continue;
            }
            let mut waiting = c.run_queue.waiting.iter();
            if let Some(index) = waiting.position(|task| self.task_may_move_to(*task, cpu)) {
                best = Some((local, length, other, index));
            }
        }
        let Some((.., from, index)) = best else {
            return false;
        };
        let Some(task) = self.cpus[from].run_queue.waiting.remove_at(index) else {
            return false;
        };
        self.tell_observer_of_runnable_tasks(from);
        self.migrate_task(task, cpu);
        self.cpus[cpu].run_queue.waiting.push_back(task);
        self.tell_observer_of_runnable_tasks(cpu);
        true
    }
}
