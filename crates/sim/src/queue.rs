//! Pending events, in order of time and of scheduling among equal times.
//!
//! Most events are of something that has at most one of them pending (the phase of a CPU, its next
//! tick or timer, the change of a clock) and is often rescheduled. These have a slot each in [`Slots`],
//! where rescheduling replaces what was there. The others, requests in the drive, wait in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When something is due: its time in ns in the upper half, its rank among what is due at the same
/// time in the lower one, so that one comparison orders both.
type Due = u128;

const NEVER: Due = Due::MAX;

const fn due_at(time: u64, rank: u64) -> Due {
    (time as Due) << 64 | rank as Due
}

const fn time_of(due: Due) -> u64 {
    (due >> 64) as u64
}

/// Most events that are kept in order.
const FRONT: usize = 16;
/// How many it is good to put in order at once: fewer make for frequent passes over the slots, more
/// for long moves in the front.
const FEW: usize = 4;
const MANY: usize = 12;

/// A fixed number of slots with at most one event each.
///
/// Only the next few events are in order, in `front`; the others are only known by their slot, and
/// none of them is due before those. What is scheduled is mostly due either among the next few, near
/// the end of a short array, or so late that storing it is all there is to do. When the front is used
/// up, one pass over the slots finds the next few.
#[derive(Debug)]
pub(crate) struct Slots {
    due: Vec<Due>,
    /// The events due up to `bound`, the last one first; the rest of it is unused.
    front: [(Due, usize); FRONT],
    ordered: usize,
    bound: Due,
    /// How far a pass looks ahead, in ns.
    horizon: u64,
    /// When the last event was due, in ns.
    now: u64,
}

impl Slots {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            due: vec![NEVER; slots],
            front: [(NEVER, 0); FRONT],
            ordered: 0,
            bound: 0,
            horizon: 1 << 16,
            now: 0,
        }
    }

    /// Schedules the event of a slot, in place of one that is pending.
    #[inline]
    pub(crate) fn schedule(&mut self, slot: usize, due: Due) {
        let before = std::mem::replace(&mut self.due[slot], due);
        if before <= self.bound {
            self.remove(slot);
        }
        if due <= self.bound {
            self.insert(due, slot);
        }
    }

    /// Takes the event that is due first: its slot, and when.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(usize, u64)> {
        if self.ordered == 0 && !self.refill() {
            return None;
        }
        self.ordered -= 1;
        let (due, slot) = self.front[self.ordered];
        self.due[slot] = NEVER;
        self.now = time_of(due);
        Some((slot, self.now))
    }

    /// When a slot is due.
    pub(crate) fn due(&self, slot: usize) -> u64 {
        time_of(self.due[slot])
    }

    /// Puts an event into the front. If that is full, the last one of all goes back to the others.
    #[inline]
    fn insert(&mut self, due: Due, slot: usize) {
        if self.ordered == FRONT {
            let last = self.front[0].0;
            if due > last {
                self.bound = last;
                return;
            }
            self.front.copy_within(1.., 0);
            self.ordered -= 1;
            self.bound = due.max(self.front[0].0);
        }
        let mut place = self.ordered;
        while place > 0 && self.front[place - 1].0 < due {
            self.front[place] = self.front[place - 1];
            place -= 1;
        }
        self.front[place] = (due, slot);
        self.ordered += 1;
    }

    /// Removes a slot from the front, which has it.
    fn remove(&mut self, slot: usize) {
        let ordered = &self.front[..self.ordered];
        if let Some(place) = ordered.iter().rposition(|(_, of)| *of == slot) {
            self.front.copy_within(place + 1..self.ordered, place);
            self.ordered -= 1;
        }
    }

    /// Puts the next few in order. Returns whether there are any.
    #[cold]
    fn refill(&mut self) -> bool {
        let mut from = self.now;
        loop {
            self.bound = due_at(
                from.saturating_add(self.horizon).min(u64::MAX - 1),
                u64::MAX,
            );
            let mut earliest = NEVER;
            for slot in 0..self.due.len() {
                let due = self.due[slot];
                if due <= self.bound {
                    self.insert(due, slot);
                } else {
                    earliest = earliest.min(due);
                }
            }
            if self.ordered > MANY {
                self.horizon -= self.horizon / 4;
            } else if self.ordered < FEW && self.horizon < u64::MAX / 4 {
                self.horizon += self.horizon / 4 + 1;
            }
            if self.ordered > 0 || earliest == NEVER {
                return self.ordered > 0;
            }
            from = time_of(earliest);
        }
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
        let due = due_at(time, self.rank());
        self.slots.schedule(slot, due);
    }

    /// Takes back the event of a slot.
    pub(crate) fn cancel(&mut self, slot: usize) {
        self.slots.schedule(slot, NEVER);
    }

    /// When a slot is due; [`u64::MAX`] if it is not.
    pub(crate) fn due(&self, slot: usize) -> u64 {
        self.slots.due(slot)
    }

    /// Adds one of the other events at `time` ns.
    pub(crate) fn push(&mut self, time: u64, event: E) {
        let due = due_at(time, self.rank());
        self.others.push(due, event);
        if self.others.due() == due {
            self.slots.schedule(self.others_slot, due);
        }
    }

    /// Takes the next event and its time in ns.
    pub(crate) fn pop(&mut self) -> Option<(u64, Next<E>)> {
        let (slot, time) = self.slots.pop()?;
        if slot != self.others_slot {
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
            slots in 1_usize..40,
            ops in prop::collection::vec((0_u64..50, 0_usize..50, 0_u8..4), 1..3000),
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
