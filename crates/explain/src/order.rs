//! Events of different CPUs, put into the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wakepath_trace::recording::Event;

/// How late an event of another CPU may come, in ns: recordings write an idle period once its governor was told.
const LATEST_NS: u64 = 5_000_000;
/// Most events that are held back to be sorted.
const MAX_HELD: usize = 1 << 16;

/// An event with its place in the recording, which decides between equal times.
#[derive(PartialEq, Eq)]
struct QueuedEvent {
    place: u64,
    event: Event,
}

impl Ord for QueuedEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.event.time, self.place).cmp(&(other.event.time, other.place))
    }
}

impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Holds events back until no earlier one can come.
#[derive(Default)]
pub(crate) struct Sorter {
    held: BinaryHeap<Reverse<QueuedEvent>>,
    pushed: u64,
    latest: u64,
}

impl Sorter {
    /// Takes the next event of the recording, to be handed out in the order of time.
    pub(crate) fn hold_event(&mut self, event: &Event) {
        self.latest = self.latest.max(event.time.0);
        let place = self.pushed;
        self.pushed += 1;
        let event = *event;
        self.held.push(Reverse(QueuedEvent { place, event }));
    }

    /// Removes and returns the earliest event if no later arrival can precede it; `None` if one still could.
    pub(crate) fn pop_settled_event(&mut self) -> Option<Event> {
        let Reverse(first) = self.held.peek()?;
        let settled = first.event.time.0.saturating_add(LATEST_NS) < self.latest;
        (settled || self.held.len() > MAX_HELD).then(|| self.pop_earliest_event())?
    }

    /// Removes and returns the earliest event, at the end of the recording.
    pub(crate) fn pop_earliest_event(&mut self) -> Option<Event> {
        self.held.pop().map(|Reverse(held)| held.event)
    }
}
