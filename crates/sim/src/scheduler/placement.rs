//! Choice of the CPU for a woken task.
//!
//! Placement follows `select_task_rq_fair()` in Linux 6.1: a woken task stays on the last CPU or comes to the waker,
//! whichever is idle, else to an idle CPU in the same cluster, whole idle cores first. Unequal clusters are searched
//! together.

use std::ops::Range;

use crate::core::basics::{CpuId, TaskId};
use crate::cpu::state::Cpu;
use crate::scheduler::state::Entity;
use crate::setup::Setup;
use crate::task::state::Task;

/// The state by which a CPU for a task is chosen.
#[derive(Clone, Copy)]
pub(crate) struct Placement<'a> {
    pub(super) setup: &'a Setup,
    pub(super) cpus: &'a [Cpu<'a>],
    pub(super) tasks: &'a [Task],
}

impl Placement<'_> {
    /// Whether a CPU's run queue is empty: no task runs or wants to run there.
    #[inline(always)]
    pub(super) fn is_idle(self, cpu: CpuId) -> bool {
        !self.cpus[cpu].run_queue.has_task()
    }

    /// Whether a task may run on a CPU, by its allowed CPUs and by isolation.
    #[inline(always)]
    pub(crate) fn is_allowed(self, task: TaskId, cpu: CpuId) -> bool {
        self.may_use(&self.tasks[task].entity, cpu)
    }

    /// Whether a task with this entity may run on a CPU.
    #[inline(always)]
    pub(super) fn may_use(self, entity: &Entity, cpu: CpuId) -> bool {
        match entity.allowed {
            None => self.setup.scheduler.isolated.get(cpu) != Some(&true),
            Some(set) => self.setup.programs.cpu_set_contains(set, cpu),
        }
    }

    /// The CPUs on the same core, including `cpu`.
    pub(super) fn cpus_on_same_core(self, cpu: CpuId) -> Range<CpuId> {
        self.setup
            .topology
            .cpus_on_same_core(self.cpus[cpu].cluster, cpu)
    }

    /// The CPU for a woken task. `waker` is the waking task's CPU, if a task wakes, and whether the waker is about to
    /// sleep.
    #[inline(always)]
    pub(crate) fn choose_cpu_for_woken_task(
        self,
        task: TaskId,
        waker: Option<(CpuId, bool)>,
    ) -> CpuId {
        let t = &self.tasks[task];
        // The commonest case is decided at once.
        let stays = waker.is_none()
            && !self.setup.cpu.threads_slow_each_other()
            && t.entity.allowed.is_none();
        if stays && self.is_idle(t.cpu) && self.task_fits_cpu(task, t.cpu) {
            return t.cpu;
        }
        self.search_cpu_for_woken_task(task, waker)
    }

    /// Searches the CPU for a woken task, beyond the commonest case.
    #[inline(never)]
    fn search_cpu_for_woken_task(self, task: TaskId, waker: Option<(CpuId, bool)>) -> CpuId {
        let previous = self.tasks[task].cpu;
        if self.stays_behind_kernel_worker(task, waker) {
            return previous;
        }
        let mut near = previous;
        if let Some((cpu, sleeps_next)) = waker
            && sleeps_next
            && self.cpus[cpu].run_queue.waiting.is_empty()
            && self.is_allowed(task, cpu)
        {
            // A waker about to sleep leaves its CPU to the woken task.
            near = cpu;
        }
        if !self.task_fits_cpu(task, near)
            && let Some(cpu) = self.find_bigger_idle_cpu(task, near)
        {
            return cpu;
        }
        let cluster = self.cpus[near].cluster;
        let local = self.cpus[previous].cluster == cluster;
        for cpu in [Some(near), local.then_some(previous)]
            .into_iter()
            .flatten()
        {
            if self.is_idle(cpu) && self.is_allowed(task, cpu) {
                return cpu;
            }
        }
        // For a task woken by an interrupt, the search begins at the first CPU.
        let from = waker.map_or(0, |_| near);
        if let Some(cpu) = self.find_idle_cpu_in_cluster(cluster, from, task) {
            return cpu;
        }
        if self.setup.topology.has_unequal_capacities() {
            // Never from a bigger to a smaller CPU: only balancing does so.
            let least = self.setup.topology.cluster(cluster).capacity();
            let mut others = (0..self.setup.topology.clusters().len())
                .filter(|c| *c != cluster && self.setup.topology.cluster(*c).capacity() >= least);
            if let Some(cpu) = others.find_map(|c| self.find_idle_cpu_in_cluster(c, 0, task)) {
                return cpu;
            }
        }
        ([near, previous].into_iter().chain(0..self.cpus.len()))
            .find(|cpu| self.is_allowed(task, *cpu))
            .unwrap_or(previous)
    }

    /// Whether a task that a kernel worker wakes stays on its CPU behind the worker, which will sleep soon: the worker is bound to this CPU
    /// and runs there alone (`is_per_cpu_kthread()` and `in_task()` in `select_idle_sibling()`). Interrupts give no waker.
    fn stays_behind_kernel_worker(self, task: TaskId, waker: Option<(CpuId, bool)>) -> bool {
        let previous = self.tasks[task].cpu;
        let run_queue = &self.cpus[previous].run_queue;
        let is_worker = (run_queue.current_task())
            .is_some_and(|current| self.tasks[current].is_worker_of_one_cpu());
        let is_waker = waker.is_some_and(|(cpu, _)| cpu == previous);
        is_waker
            && is_worker
            && run_queue.waiting.is_empty()
            && self.task_fits_cpu(task, previous)
            && self.is_allowed(task, previous)
    }

    /// An idle CPU in a cluster, on an idle core if there is any: the next one after `from`, if `from` is in the
    /// cluster.
    pub(super) fn find_idle_cpu_in_cluster(
        self,
        cluster: usize,
        from: CpuId,
        task: TaskId,
    ) -> Option<CpuId> {
        let cluster = self.setup.topology.cluster(cluster);
        let cpus = cluster.cpus();
        let mut thread = None;
        // Round the cluster as `for_each_cpu_wrap()`: a search always from the first CPUs would take CPUs from tasks
        // that just left, and leave the last CPUs unused.
        let begin = if cpus.contains(&from) {
            from
        } else {
            cpus.start
        };
        for cpu in (begin..cpus.end).chain(cpus.start..begin) {
            if !self.is_idle(cpu) || !self.is_allowed(task, cpu) {
                continue;
            }
            if cluster.threads_per_core() == 1
                || self.cpus_on_same_core(cpu).all(|c| self.is_idle(c))
            {
                return Some(cpu);
            }
            thread = thread.or(Some(cpu));
        }
        thread
    }

    /// Whether a CPU is big enough for a task: the task's utilisation takes at most 4/5 (`fits_capacity()`, Linux
    /// 6.1).
    #[inline(always)]
    pub(super) fn task_fits_cpu(self, task: TaskId, cpu: CpuId) -> bool {
        !self.setup.topology.has_unequal_capacities() || {
            let capacity = self
                .setup
                .topology
                .cluster(self.cpus[cpu].cluster)
                .capacity();
            self.tasks[task].entity.utilisation_share().out_of_1024() * 5 <= capacity * 4
        }
    }

    /// Finds an idle CPU in a cluster bigger than that of `than_cpu`.
    pub(super) fn find_bigger_idle_cpu(self, task: TaskId, than_cpu: CpuId) -> Option<CpuId> {
        let capacity = self
            .setup
            .topology
            .cluster(self.cpus[than_cpu].cluster)
            .capacity();
        (0..self.setup.topology.clusters().len())
            .filter(|c| self.setup.topology.cluster(*c).capacity() > capacity)
            .find_map(|c| self.find_idle_cpu_in_cluster(c, 0, task))
    }

    /// Whether all other hardware threads of a CPU's core are idle.
    pub(super) fn rest_of_core_is_idle(self, cpu: CpuId) -> bool {
        let mut others = self.cpus_on_same_core(cpu).filter(|other| *other != cpu);
        others.all(|other| self.is_idle(other))
    }
}
