//! Pending events, in order of time and of scheduling among equal times.
//!
//! Most events are of something that has at most one of them pending (the phase of a CPU, its next
//! tick or timer, the change of a clock) and is often rescheduled. These have a slot each in [`Slots`],
//! where rescheduling replaces what was there. The others, requests in the drive, wait in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When something is due: its time in ns, and its rank among what is due at the same time.
type Due = (u64, u64);

const NEVER: Due = (u64::MAX, u64::MAX);

/// Slots that are searched together.
const GROUP: usize = 16;

/// A fixed number of slots with at most one event each.
///
/// Rescheduling is far more frequent than finding the next event and mostly concerns the same few
/// slots, so scheduling only stores, and the search goes through the groups that have changed. Short
/// runs of plain comparisons beat a tree here, whose every comparison is a mispredicted branch.
#[derive(Debug)]
pub(crate) struct Slots {
    time: Vec<[u64; GROUP]>,
    rank: Vec<[u64; GROUP]>,
    groups: Vec<Earliest>,
}

/// The slot of a group that is due first.
#[derive(Clone, Copy, Debug)]
struct Earliest {
    time: u64,
    member: usize,
    /// Several are due at that time.
    tie: bool,
    /// The slot that was due first is so no more.
    stale: bool,
}

impl Earliest {
    const NONE: Self = Self {
        time: u64::MAX,
        member: 0,
        tie: false,
        stale: false,
    };

    fn of(times: &[u64; GROUP]) -> Self {
        let mut earliest = Self::NONE;
        for (member, time) in times.iter().enumerate() {
            let sooner = *time < earliest.time;
            earliest.tie = !sooner && (earliest.tie || *time == earliest.time);
            earliest.member = if sooner { member } else { earliest.member };
            earliest.time = if sooner { *time } else { earliest.time };
        }
        earliest
    }
}

impl Slots {
    pub(crate) fn new(slots: usize) -> Self {
        let groups = slots.div_ceil(GROUP);
        Self {
            time: vec![[u64::MAX; GROUP]; groups],
            rank: vec![[u64::MAX; GROUP]; groups],
            groups: vec![Earliest::NONE; groups],
        }
    }

    /// Schedules the event of a slot, in place of one that is pending.
    pub(crate) fn schedule(&mut self, slot: usize, (time, rank): Due) {
        let (group, member) = (slot / GROUP, slot % GROUP);
        self.time[group][member] = time;
        self.rank[group][member] = rank;
        let earliest = &mut self.groups[group];
        if time < earliest.time {
            *earliest = Earliest {
                time,
                member,
                ..Earliest::NONE
            };
        } else if member == earliest.member {
            earliest.stale = true;
        } else {
            // Or it was one of several, which does no harm.
            earliest.tie |= time == earliest.time;
        }
    }

    /// The slot that is due first, and when; [`u64::MAX`] if none is.
    pub(crate) fn first(&mut self) -> (usize, u64) {
        let mut first = (Earliest::NONE, 0);
        let mut tie = false;
        for (group, earliest) in self.groups.iter_mut().enumerate() {
            if earliest.stale {
                *earliest = Earliest::of(&self.time[group]);
            }
            if earliest.time < first.0.time {
                tie = earliest.tie;
                first = (*earliest, group);
            } else {
                tie |= earliest.time == first.0.time;
            }
        }
        let (Earliest { time, member, .. }, group) = first;
        if tie && time != u64::MAX {
            return (self.first_of_several(time), time);
        }
        (group * GROUP + member, time)
    }

    /// The slot that was scheduled first of those that are due at `time`.
    fn first_of_several(&self, time: u64) -> usize {
        let times = self.time.iter().flatten();
        let ranks = self.rank.iter().flatten();
        times
            .zip(ranks)
            .enumerate()
            .filter(|(_, (at, _))| **at == time)
            .min_by_key(|(_, (_, rank))| **rank)
            .map_or(0, |(slot, _)| slot)
    }

    /// When a slot is due.
    pub(crate) fn due(&self, slot: usize) -> u64 {
        self.time[slot / GROUP][slot % GROUP]
    }
}

/// A heap of events of type `E`.
#[derive(Debug)]
pub(crate) struct Heap<E>(BinaryHeap<Reverse<Entry<E>>>);

#[derive(Debug)]
struct Entry<E> {
    due: Due,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<E> Heap<E> {
    pub(crate) fn push(&mut self, due: Due, event: E) {
        self.0.push(Reverse(Entry { due, event }));
    }

    pub(crate) fn pop(&mut self) -> Option<E> {
        self.0.pop().map(|Reverse(entry)| entry.event)
    }

    /// When the first event is due; [`u64::MAX`] if there is none.
    pub(crate) fn due(&self) -> Due {
        self.0.peek().map_or(NEVER, |Reverse(entry)| entry.due)
    }
}

/// What is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<E> {
    /// The event of a slot.
    Slot(usize),
    /// One of the others.
    Other(E),
}

/// The events of a simulation: `slots` things with one event each at most, and any number of others.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    slots: Slots,
    others: Heap<E>,
    /// The slot that stands for the first of the others.
    others_slot: usize,
    scheduled: u64,
}

impl<E> EventQueue<E> {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots: Slots::new(slots + 1),
            others: Heap::default(),
            others_slot: slots,
            scheduled: 0,
        }
    }

    fn rank(&mut self) -> u64 {
        self.scheduled += 1;
        self.scheduled
    }

    /// Schedules the event of a slot at `time` ns, in place of one that is pending.
    pub(crate) fn schedule(&mut self, slot: usize, time: u64) {
        let due = (time, self.rank());
        self.slots.schedule(slot, due);
    }

    /// Takes back the event of a slot.
    pub(crate) fn cancel(&mut self, slot: usize) {
        if self.slots.due(slot) != u64::MAX {
            self.slots.schedule(slot, NEVER);
        }
    }

    /// When a slot is due; [`u64::MAX`] if it is not.
    pub(crate) fn due(&self, slot: usize) -> u64 {
        self.slots.due(slot)
    }

    /// Adds one of the other events at `time` ns.
    pub(crate) fn push(&mut self, time: u64, event: E) {
        let due = (time, self.rank());
        self.others.push(due, event);
        if self.others.due() == due {
            self.slots.schedule(self.others_slot, due);
        }
    }

    /// Takes the next event and its time in ns.
    pub(crate) fn pop(&mut self) -> Option<(u64, Next<E>)> {
        let (slot, time) = self.slots.first();
        if time == u64::MAX {
            return None;
        }
        if slot != self.others_slot {
            self.slots.schedule(slot, NEVER);
            return Some((time, Next::Slot(slot)));
        }
        let event = self.others.pop()?;
        self.slots.schedule(slot, self.others.due());
        Some((time, Next::Other(event)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(
            slots in 1_usize..20,
            ops in prop::collection::vec((0_u64..50, 0_usize..30, 0_u8..4), 1..3000),
        ) {
            let mut queue = EventQueue::new(slots);
            let mut model = BTreeMap::new();
            let mut rank = 0;
            for (number, (time, slot, op)) in ops.into_iter().enumerate() {
                rank += 1;
                let pending = |model: &BTreeMap<(u64, usize), Next<usize>>| {
                    model.iter().find(|(_, next)| **next == Next::Slot(slot)).map(|(due, _)| *due)
                };
                match op {
                    0 => {
                        queue.push(time, number);
                        model.insert((time, rank), Next::Other(number));
                    }
                    1 if slot < slots => {
                        if let Some(due) = pending(&model) {
                            model.remove(&due);
                        }
                        queue.schedule(slot, time);
                        model.insert((time, rank), Next::Slot(slot));
                        prop_assert_eq!(queue.due(slot), time);
                    }
                    2 if slot < slots => {
                        if let Some(due) = pending(&model) {
                            model.remove(&due);
                        }
                        queue.cancel(slot);
                    }
                    _ => {
                        let expected = model.pop_first().map(|((time, _), next)| (time, next));
                        prop_assert_eq!(queue.pop(), expected);
                    }
                }
            }
            while let Some(((time, _), next)) = model.pop_first() {
                prop_assert_eq!(queue.pop(), Some((time, next)));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
