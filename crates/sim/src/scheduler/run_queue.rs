//! The run queue of a CPU: running task, waiting tasks, utilisation.
//!
//! Utilisation is the geometric mean of `kernel/sched/pelt.c`. cpufreq is told whenever a period of the signal begins.

use wakepath_policies::utilisation::{Runnable, Utilisation};

use crate::core::basics::TaskId;
use crate::core::queue::fifo::Fifo;

/// The scheduler's counts over all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Number of tasks that wait on run queues, over all CPUs.
    pub(super) waiting: usize,
    /// How often a task has changed its CPU.
    pub(super) migrations: u64,
}

impl Scheduler {
    /// How often a task has changed its CPU, over the whole run.
    pub(crate) fn migration_count(&self) -> u64 {
        self.migrations
    }
}

/// A CPU's run queue: its tasks, and the signals of its load.
#[derive(Debug)]
pub(crate) struct RunQueue {
    pub(super) current: Option<TaskId>,
    /// Tasks that want to run, in the order in which they came.
    pub(super) waiting: Fifo<TaskId>,
    /// The task that runs or ran last on the CPU.
    pub(super) ran_last: Option<TaskId>,
    /// Time in ns when the current task got the CPU.
    pub(super) picked_at: u64,
    /// Whether the current task is to give way to another task.
    pub(super) need_resched: bool,
    /// No waiting task was behind this virtual run time when the last one was picked.
    pub(super) least_vruntime: u64,
    /// Number of tasks that ran here last and sleep in I/O wait.
    waiting_for_io: u32,
    utilisation: Utilisation,
    /// Mean number of runnable tasks, and their number now, if a governor asks.
    runnable: Runnable,
    runnable_now: u32,
    /// Period of the utilisation signal in which cpufreq was told last.
    reported_period: u64,
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        Self {
            current: None,
            waiting: Fifo::new(),
            ran_last: None,
            picked_at: 0,
            need_resched: false,
            least_vruntime: 0,
            waiting_for_io: 0,
            utilisation: Utilisation::default(),
            runnable: Runnable::default(),
            runnable_now: 0,
            reported_period: 0,
        }
    }

    /// The CPU's current task, running or interrupted; `None` without any.
    #[inline(always)]
    pub(crate) fn current_task(&self) -> Option<TaskId> {
        self.current
    }

    /// Number of tasks that run or want to run on the CPU.
    #[inline(always)]
    pub(crate) fn task_count(&self) -> usize {
        usize::from(self.current.is_some()) + self.waiting.len()
    }

    /// Whether any task runs or wants to run on the CPU.
    #[inline(always)]
    pub(crate) fn has_task(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }

    /// Virtual run time that no waiting task was behind at the last pick; a waking task's is set near it.
    #[inline(always)]
    pub(crate) fn least_vruntime_at_last_pick(&self) -> u64 {
        self.least_vruntime
    }

    /// Removes the current task, which goes to sleep; counts it as waiting for I/O if so.
    #[inline(always)]
    pub(crate) fn remove_sleeping_current(&mut self, for_io: bool) {
        self.waiting_for_io += u32::from(for_io);
        self.current = None;
        self.need_resched = false;
    }

    /// Counts that a task wakes up from waiting for I/O.
    #[inline(always)]
    pub(crate) fn count_end_of_io_wait(&mut self) {
        self.waiting_for_io -= 1;
    }

    /// Number of tasks of the CPU that wait for I/O (`nr_iowait`).
    #[inline(always)]
    pub(crate) fn io_waiter_count(&self) -> u32 {
        self.waiting_for_io
    }

    /// Makes the current task give way to another task at the next chance.
    #[inline(always)]
    pub(crate) fn request_resched(&mut self) {
        self.need_resched = true;
    }

    /// Whether the current task is to give way to another task.
    #[inline(always)]
    pub(crate) fn needs_resched(&self) -> bool {
        self.need_resched
    }

    /// Accounts the time up to `now`, in which the CPU delivered `capacity_used` of 1024.
    #[inline(always)]
    pub(crate) fn account_utilisation(&mut self, now: u64, capacity_used: u32) {
        self.utilisation.account_until(now, capacity_used);
    }

    /// Accounts an interrupt served since `begun` at this capacity, with nothing done before.
    #[inline(always)]
    pub(crate) fn account_interrupt_utilisation(&mut self, begun: u64, now: u64, capacity: u32) {
        if self.utilisation.last_update_ns() < begun {
            self.account_utilisation(begun, 0);
        }
        self.account_utilisation(now, capacity);
    }

    /// Whether the utilisation signal has entered another period since the last call, which notes the new period.
    #[inline(always)]
    pub(crate) fn has_entered_new_period(&mut self) -> bool {
        let period = self.utilisation.current_period_index();
        std::mem::replace(&mut self.reported_period, period) != period
    }

    /// Accounts how many tasks there were to run up to now, at this capacity.
    #[inline(always)]
    pub(crate) fn account_runnable_tasks(&mut self, now: u64, capacity: u32) {
        self.runnable
            .account_until(now, self.runnable_now, capacity);
    }

    /// Counts a task that has become runnable, or is runnable no longer.
    #[inline(always)]
    pub(crate) fn count_runnable_change(&mut self, can_run: bool) {
        self.runnable_now = if can_run {
            self.runnable_now + 1
        } else {
            self.runnable_now - 1
        };
    }

    /// Adds the utilisation of a migrating task.
    pub(super) fn add_task_utilisation(&mut self, load: Utilisation) {
        self.utilisation.add_task(load);
    }

    /// Removes the utilisation of a migrating task.
    pub(super) fn remove_task_utilisation(&mut self, load: Utilisation) {
        self.utilisation.remove_task(load);
    }

    /// Adds a migrating task, with its share of the signal.
    pub(crate) fn add_runnable_share(&mut self, share: Runnable, can_run: bool) {
        self.runnable.add_task(share);
        self.runnable_now += u32::from(can_run);
    }

    /// Removes a migrating task, with its share of the signal.
    pub(crate) fn remove_runnable_share(&mut self, share: Runnable, can_run: bool) {
        self.runnable.remove_task(share);
        self.runnable_now -= u32::from(can_run);
    }

    /// Utilisation of the CPU, out of 1024.
    #[inline(always)]
    pub(crate) fn utilisation(&self) -> Utilisation {
        self.utilisation
    }

    /// The mean number of tasks to run, times 1024.
    #[inline(always)]
    pub(crate) fn mean_runnable_tasks(&self) -> Runnable {
        self.runnable
    }
}
