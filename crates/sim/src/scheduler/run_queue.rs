//! The run queue of a CPU: running task, waiting tasks, utilisation.
//!
//! Utilisation is the geometric mean of `kernel/sched/pelt.c`. cpufreq is told whenever a period of the signal begins.

use wakepath_policies::utilisation::{Runnable, Utilisation};

use crate::core::basics::TaskId;
use crate::core::queue::fifo::Fifo;

/// What there is to run on all CPUs together.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Tasks on run queues that do not run.
    pub(super) waiting: usize,
    /// Tasks that changed their CPU.
    pub(super) migrations: u64,
}

impl Scheduler {
    /// How often a task changed its CPU.
    pub(crate) fn migrations(&self) -> u64 {
        self.migrations
    }
}

/// Tasks of a CPU.
#[derive(Debug)]
pub(crate) struct RunQueue {
    pub(super) current: Option<TaskId>,
    /// Tasks that want to run, in the order in which they came.
    pub(super) waiting: Fifo<TaskId>,
    /// The task that ran last, or runs.
    pub(super) ran_last: Option<TaskId>,
    /// When the current task got the CPU.
    pub(super) picked_at: u64,
    /// The current task is to make room for another one.
    pub(super) need_resched: bool,
    /// No waiting task was behind this virtual run time when the last one was picked.
    pub(super) least_vruntime: u64,
    /// Tasks that sleep and wait for I/O, and ran here last.
    waiting_for_io: u32,
    utilisation: Utilisation,
    /// How many tasks there were to run, and are now, where a governor asks.
    runnable: Runnable,
    runnable_now: u32,
    /// The period of the signal in which cpufreq was told last.
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

    /// The task that runs, or was interrupted.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<TaskId> {
        self.current
    }

    /// Tasks that run or want to run.
    #[inline(always)]
    pub(crate) fn tasks(&self) -> usize {
        usize::from(self.current.is_some()) + self.waiting.len()
    }

    /// Whether a task runs or wants to run.
    #[inline(always)]
    pub(crate) fn has_task(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }

    /// Least virtual run time of a waking task, before its credit.
    #[inline(always)]
    pub(crate) fn least_vruntime(&self) -> u64 {
        self.least_vruntime
    }

    /// The current task goes to sleep, and waits for I/O or not.
    #[inline(always)]
    pub(crate) fn sleep(&mut self, for_io: bool) {
        self.waiting_for_io += u32::from(for_io);
        self.current = None;
        self.need_resched = false;
    }

    /// A task that waited for I/O wakes up.
    #[inline(always)]
    pub(crate) fn end_wait_for_io(&mut self) {
        self.waiting_for_io -= 1;
    }

    /// Tasks that wait for I/O (`nr_iowait`).
    #[inline(always)]
    pub(crate) fn waiting_for_io(&self) -> u32 {
        self.waiting_for_io
    }

    /// The current task is to make room for another one.
    #[inline(always)]
    pub(crate) fn request_resched(&mut self) {
        self.need_resched = true;
    }

    /// Whether the current task is to make room for another one.
    #[inline(always)]
    pub(crate) fn needs_resched(&self) -> bool {
        self.need_resched
    }

    /// Accounts the time up to `now`, in which the CPU delivered `running` of 1024.
    #[inline(always)]
    pub(crate) fn account(&mut self, now: u64, running: u32) {
        self.utilisation.account_until(now, running);
    }

    /// Accounts an interrupt served since `begun` at this capacity, with nothing done before.
    #[inline(always)]
    pub(crate) fn account_interrupt(&mut self, begun: u64, now: u64, capacity: u32) {
        if self.utilisation.last_update_ns() < begun {
            self.account(begun, 0);
        }
        self.account(now, capacity);
    }

    /// Whether the signal has come to another period since the last call.
    #[inline(always)]
    pub(crate) fn period_is_new(&mut self) -> bool {
        let period = self.utilisation.current_period_index();
        std::mem::replace(&mut self.reported_period, period) != period
    }

    /// Accounts how many tasks there were to run up to now, at this capacity.
    #[inline(always)]
    pub(crate) fn settle_runnable(&mut self, now: u64, capacity: u32) {
        self.runnable
            .account_until(now, self.runnable_now, capacity);
    }

    /// A task can run from now on, or can no longer.
    #[inline(always)]
    pub(crate) fn change_runnable(&mut self, can_run: bool) {
        self.runnable_now = if can_run {
            self.runnable_now + 1
        } else {
            self.runnable_now - 1
        };
    }

    /// Adds the utilisation of a migrating task.
    pub(super) fn add_load(&mut self, load: Utilisation) {
        self.utilisation.add_task(load);
    }

    /// Removes the utilisation of a migrating task.
    pub(super) fn remove_load(&mut self, load: Utilisation) {
        self.utilisation.remove_task(load);
    }

    /// Adds a migrating task, with its share of the signal.
    pub(crate) fn add_runnable(&mut self, share: Runnable, can_run: bool) {
        self.runnable.add_task(share);
        self.runnable_now += u32::from(can_run);
    }

    /// Removes a migrating task, with its share of the signal.
    pub(crate) fn remove_runnable(&mut self, share: Runnable, can_run: bool) {
        self.runnable.remove_task(share);
        self.runnable_now -= u32::from(can_run);
    }

    /// Utilisation, of 1024.
    #[inline(always)]
    pub(crate) fn utilisation(&self) -> Utilisation {
        self.utilisation
    }

    /// The mean number of tasks to run, times 1024.
    #[inline(always)]
    pub(crate) fn runnable(&self) -> Runnable {
        self.runnable
    }
}
