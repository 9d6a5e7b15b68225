//! Which tasks of one name write one at a time, as those do that share a lock.

use std::collections::{BTreeMap, BTreeSet};

/// Fewest writes and flushes that show a lock.
const FEWEST_WRITES: u64 = 40;

/// Most steps that a wait for another task's sync becomes: its begin, its items, and its end.
pub(super) const MOST_STEPS_OF_SHARED_SYNC: usize = 12;

/// Writes and flushes of tasks, by the tasks' names.
#[derive(Debug, Default)]
pub(super) struct WritePools {
    names: BTreeMap<u32, String>,
    by_name: BTreeMap<String, PoolWrites>,
}

/// Writes and flushes of all tasks with one name.
#[derive(Debug, Default)]
struct PoolWrites {
    /// The task whose requests are in flight, or were last.
    writer: u32,
    in_flight: u32,
    /// Requests submitted while no other task of the pool had one in flight, and others.
    alone: u64,
    beside: u64,
}

impl PoolWrites {
    /// Whether hardly any request was submitted beside another task's.
    fn are_exclusive(&self) -> bool {
        self.alone >= FEWEST_WRITES && self.beside.saturating_mul(20) <= self.alone
    }
}

impl WritePools {
    /// No writes so far of tasks with these names.
    pub(super) fn new(names: &BTreeMap<u32, String>) -> Self {
        Self {
            names: names.clone(),
            by_name: BTreeMap::new(),
        }
    }

    fn pool_of_task(&mut self, task: u32) -> Option<&mut PoolWrites> {
        let name = self.names.get(&task)?;
        Some(self.by_name.entry(name.clone()).or_default())
    }

    /// Notes that a task submits a write or flush.
    pub(super) fn note_submitted(&mut self, task: u32) {
        if let Some(pool) = self.pool_of_task(task) {
            let is_alone = pool.in_flight == 0 || pool.writer == task;
            *(if is_alone {
                &mut pool.alone
            } else {
                &mut pool.beside
            }) += 1;
            pool.writer = task;
            pool.in_flight += 1;
        }
    }

    /// Notes the end of a task's write or flush.
    pub(super) fn note_ended(&mut self, task: u32) {
        if let Some(pool) = self.pool_of_task(task) {
            pool.in_flight = pool.in_flight.saturating_sub(1);
        }
    }

    /// How many steps a wake-up of one task by another can become.
    pub(super) fn most_steps_of_wake_up(&self, waker: u32, woken: u32) -> usize {
        let name = self.names.get(&waker);
        let pool = name.and_then(|name| self.by_name.get(name));
        let is_shared =
            pool.is_some_and(PoolWrites::are_exclusive) && name == self.names.get(&woken);
        if is_shared {
            MOST_STEPS_OF_SHARED_SYNC
        } else {
            1
        }
    }

    /// Names of tasks that write one at a time.
    pub(super) fn into_exclusive_names(self) -> BTreeSet<String> {
        let pools = self.by_name.into_iter();
        let exclusive = pools.filter(|(_, pool)| pool.are_exclusive());
        exclusive.map(|(name, _)| name).collect()
    }
}
