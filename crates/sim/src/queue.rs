//! The event queue: events in order of time, and of insertion among equal times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Pending events of type `E`.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    inserted: u64,
}

#[derive(Debug)]
struct Entry<E> {
    time: u64,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (u64, u64) {
        (self.time, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
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
        self.key().cmp(&other.key())
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            inserted: 0,
        }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event at `time` ns.
    pub(crate) fn push(&mut self, time: u64, event: E) {
        self.heap.push(Reverse(Entry {
            time,
            number: self.inserted,
            event,
        }));
        self.inserted += 1;
    }

    /// Takes the earliest event: its time in ns and itself.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.time, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map_of_time_and_insertion(ops in prop::collection::vec((0_u64..50, prop::bool::ANY), 1..2000)) {
            let mut queue = EventQueue::default();
            let mut model = BTreeMap::new();
            for (number, (time, push)) in ops.into_iter().enumerate() {
                if push {
                    queue.push(time, number);
                    model.insert((time, number), number);
                } else {
                    let expected = model.pop_first().map(|((time, _), value)| (time, value));
                    prop_assert_eq!(queue.pop(), expected);
                }
            }
            while let Some(((time, _), value)) = model.pop_first() {
                prop_assert_eq!(queue.pop(), Some((time, value)));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
