//! Requests by the network that tasks of given steps wait for. As for a server, each interrupts a CPU, which wakes the task.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::core::basics::CpuId;

/// Requests on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// When requests arrive, in ns, with the thread that waits and the CPU to be interrupted.
    due: BinaryHeap<Reverse<(u64, usize, CpuId)>>,
    /// By CPU, when those requests arrived whose interrupt has not been served, and the threads that wait for them.
    at_card: BTreeMap<CpuId, VecDeque<(u64, usize)>>,
}

impl Arrivals {
    pub(super) fn add(&mut self, at: u64, thread: usize, cpu: CpuId) {
        self.due.push(Reverse((at, thread, cpu)));
    }

    /// Time in ns of the next arrival; `None` if none is known.
    pub(super) fn next_arrival(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes the first request that is due by `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<(u64, usize, CpuId)> {
        let Reverse(first) = *self.due.peek()?;
        (first.0 <= now).then(|| self.due.pop())?;
        Some(first)
    }

    /// Gives a request to the card. Returns whether the card raises an interrupt: none is on its way to the CPU yet.
    pub(super) fn give_to_card(&mut self, (at, thread, cpu): (u64, usize, CpuId)) -> bool {
        let waiting = self.at_card.entry(cpu).or_default();
        waiting.push_back((at, thread));
        waiting.len() == 1
    }

    /// The first request at a CPU's interrupt.
    pub(super) fn first_at_card(&self, cpu: CpuId) -> Option<(u64, usize)> {
        self.at_card.get(&cpu)?.front().copied()
    }

    pub(super) fn remove_first_at_card(&mut self, cpu: CpuId) {
        if let Some(waiting) = self.at_card.get_mut(&cpu) {
            waiting.pop_front();
        }
    }
}
