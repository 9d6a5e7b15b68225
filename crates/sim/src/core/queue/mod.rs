//! Pending events, in order by time, then by scheduling among equal times.
//!
//! Most events belong to an owner with at most one pending event (a CPU's phase, tick or timer, a clock's change), and
//! are often rescheduled. Such owners have a slot each, where rescheduling replaces the earlier event. The others,
//! requests in drives, wait in a heap.
//!
//! The event scheduled last is carried along unstored, since mostly the next event is this one. Among the others, only
//! the next few are in order, in the *front*. A stored event is mostly due either among the next few, near the end of
//! a short array, or so late that storing is all there is to do. When the front is used up, a pass over the slots and
//! the heap's top finds the next few.

pub(crate) mod fifo;
pub mod pattern;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A due event as one number to compare: time in ns in the upper 64 bits, then rank among equal times, then event
/// number.
type Due = u128;

const NEVER: Due = Due::MAX;
/// Bits for an event's number. Ranks have the 36 bits up to the time. Ranks start again from 0 after as many events,
/// and nothing stays pending for so long.
const NUMBER_BITS: u32 = 28;

fn pack_due(time: u64, rank: u64, number: usize) -> Due {
    Due::from(time) << 64 | Due::from(rank << NUMBER_BITS) | number as Due
}

const fn time_of_due(due: Due) -> u64 {
    (due >> 64) as u64
}

const fn event_number_of_due(due: Due) -> usize {
    due as usize & ((1 << NUMBER_BITS) - 1)
}

/// The latest possible due value at the time `time`, whatever rank and event.
const fn last_due_at(time: u64) -> Due {
    (time as Due) << 64 | u64::MAX as Due
}

/// Places in the front's array; the first holds the bound and no event.
const FRONT: usize = 16;
/// How many events it is good to put in order at once: fewer make for frequent passes over the slots,
/// more for long moves in the front.
const REFILL_MIN: usize = 4;
const REFILL_MAX: usize = 12;
/// Number of slots in a group, which a pass skips together if none is due.
const GROUP: usize = 8;

/// A simulation's events: `slots` owners with at most one event each, and any number without a slot.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The event scheduled last, while unstored: mostly one event leads to just one other, also the next overall.
    carried: Due,
    front: Front,
    /// Due value by slot, for events in the front or outside, but not for the carried event.
    due: Vec<Due>,
    /// By group of slots: a time before which no slot is due, except slots in the front.
    from: Vec<u64>,
    slots: usize,
    /// Heap of events without a slot that are not in the front.
    others: BinaryHeap<Reverse<Due>>,
    scheduled: u64,
    /// How far ahead in ns a refill of the front looks.
    horizon: u64,
    /// Time in ns when the last removed event was due.
    now: u64,
}

/// The front: all stored events due up to a bound, in order, the next event last.
#[derive(Debug)]
struct Front {
    /// The bound first, as if the last event, so that one comparison finds an event sooner than all others; then the
    /// events. The rest is unused.
    places: [Due; FRONT],
    events: usize,
    /// The next event, a copy of the last used place; the bound if the front is empty.
    next: Due,
}

impl Front {
    fn bound(&self) -> Due {
        self.places[0]
    }

    /// Sets the bound of a front without events.
    fn set_bound_while_empty(&mut self, bound: Due) {
        self.places[0] = bound;
        self.next = bound;
    }

    /// Removes the next event from the front. (The remainder spares a bounds check.)
    #[inline]
    fn remove_next(&mut self) {
        self.events -= 1;
        self.next = self.places[self.events % FRONT];
    }

    /// Puts an event due before all others into the front. Returns false, and does nothing, if there is no room or the event is later.
    #[inline]
    fn try_put_first(&mut self, due: Due) -> bool {
        let first = due <= self.next && self.events + 1 < FRONT;
        if first {
            self.events += 1;
            self.places[self.events % FRONT] = due;
            self.next = due;
        }
        first
    }

    /// Inserts an event due by the bound in order. Without room, returns the front's last event and moves the bound before it.
    fn insert_or_evict_last(&mut self, due: Due) -> Option<Due> {
        let mut left = None;
        if self.events + 1 == FRONT {
            let last = self.places[1];
            if due > last {
                self.places[0] = last;
                return Some(due);
            }
            self.places.copy_within(2.., 1);
            self.events -= 1;
            self.places[0] = due.max(self.places[1]);
            left = Some(last);
        }
        let mut place = self.events;
        while self.places[place] < due {
            self.places[place + 1] = self.places[place];
            place -= 1;
        }
        self.places[place + 1] = due;
        self.events += 1;
        self.next = self.places[self.events];
        left
    }

    /// Removes an event from the front, if present.
    fn remove_if_present(&mut self, due: Due) {
        let events = &self.places[1..=self.events];
        if let Some(place) = events.iter().rposition(|event| *event == due) {
            self.places.copy_within(place + 2..=self.events, place + 1);
            self.remove_next();
        }
    }
}

impl EventQueue {
    pub(crate) fn new(slots: usize) -> Self {
        let groups = slots.div_ceil(GROUP);
        Self {
            carried: NEVER,
            front: Front {
                places: [0; FRONT],
                events: 0,
                next: 0,
            },
            due: vec![NEVER; groups * GROUP],
            from: vec![u64::MAX; groups],
            slots,
            others: BinaryHeap::new(),
            scheduled: 0,
            horizon: 1 << 16,
            now: 0,
        }
    }

    #[inline]
    fn due_after_equal_times(&mut self, time: u64, number: usize) -> Due {
        debug_assert!(number < 1 << NUMBER_BITS);
        self.scheduled = self.scheduled.wrapping_add(1);
        pack_due(time, self.scheduled, number)
    }

    /// Schedules a slot's event at `time` ns; replaces the slot's pending event.
    #[inline]
    pub(crate) fn schedule(&mut self, slot: usize, time: u64) {
        let due = self.due_after_equal_times(time, slot);
        if time_of_due(self.due[slot]) != u64::MAX || time_of_due(self.carried) != u64::MAX {
            self.cancel_and_store_carried(slot);
        }
        self.carry_unstored(due);
    }

    /// Cancels a slot's event, if pending.
    #[inline]
    pub(crate) fn cancel(&mut self, slot: usize) {
        if time_of_due(self.due[slot]) != u64::MAX {
            self.forget_stored(slot);
        } else if event_number_of_due(self.carried) == slot {
            self.carried = NEVER;
        }
    }

    /// Time in ns when a slot's event is due; [`u64::MAX`] if none is pending.
    #[inline]
    pub(crate) fn due_time(&self, slot: usize) -> u64 {
        if event_number_of_due(self.carried) == slot {
            time_of_due(self.carried)
        } else {
            time_of_due(self.due[slot])
        }
    }

    /// Adds an event without a slot, due at `time` ns, with the own number `other`.
    #[inline]
    pub(crate) fn push_without_slot(&mut self, time: u64, other: usize) {
        let due = self.due_after_equal_times(time, self.slots + other);
        if time_of_due(self.carried) != u64::MAX {
            self.store_carried();
        }
        self.carry_unstored(due);
    }

    /// Carries an event along unstored; no other event may be carried.
    #[inline(always)]
    fn carry_unstored(&mut self, due: Due) {
        self.carried = due;
        #[cfg(test)]
        if tests::STORED_AT_ONCE.get() {
            self.store_carried();
        }
    }

    /// Removes and returns the next event: time in ns and slot number, or for an event without a slot, slot count plus own number.
    #[inline]
    pub(crate) fn pop_next(&mut self) -> Option<(u64, usize)> {
        let mut due = self.carried;
        // The carried event is the next if due before the front's next, or before the bound of an empty front.
        if due <= self.front.next {
            self.carried = NEVER;
        } else {
            if self.front.events == 0 && !self.refill_front() {
                return None;
            }
            due = self.front.next;
            self.front.remove_next();
            if let Some(due) = self.due.get_mut(event_number_of_due(due)) {
                *due = NEVER;
            }
        }
        self.now = time_of_due(due);
        Some((self.now, event_number_of_due(due)))
    }

    /// Cancels the slot's pending event; if another slot's event is carried, stores that event.
    #[inline(never)]
    fn cancel_and_store_carried(&mut self, slot: usize) {
        if event_number_of_due(self.carried) == slot {
            self.carried = NEVER;
        } else {
            self.forget_stored(slot);
            self.store_carried();
        }
    }

    /// Removes a slot's stored event, if any.
    fn forget_stored(&mut self, slot: usize) {
        let before = std::mem::replace(&mut self.due[slot], NEVER);
        if before <= self.front.bound() {
            self.front.remove_if_present(before);
        }
    }

    /// Stores the carried event in the front or beyond, if an event is carried.
    fn store_carried(&mut self) {
        let carried = std::mem::replace(&mut self.carried, NEVER);
        if carried == NEVER {
            return;
        }
        let number = event_number_of_due(carried);
        if number < self.slots {
            self.due[number] = carried;
        }
        if !self.front.try_put_first(carried) {
            self.store_in_front_or_beyond(carried);
        }
    }

    /// Stores an event: in the front if due by its bound, otherwise outside.
    fn store_in_front_or_beyond(&mut self, due: Due) {
        let left = if due <= self.front.bound() {
            self.front.insert_or_evict_last(due)
        } else {
            Some(due)
        };
        let Some(late) = left else { return };
        let number = event_number_of_due(late);
        if number < self.slots {
            let from = &mut self.from[number / GROUP];
            *from = time_of_due(late).min(*from);
        } else {
            self.others.push(Reverse(late));
        }
    }

    /// Fills the empty front with the next few events. Returns false if no event is left.
    #[cold]
    fn refill_front(&mut self) -> bool {
        self.store_carried();
        if self.front.events > 0 {
            return true;
        }
        let mut start = self.now;
        loop {
            self.front.set_bound_while_empty(last_due_at(
                start.saturating_add(self.horizon).min(u64::MAX - 1),
            ));
            self.move_due_slots_to_front();
            while let Some(Reverse(due)) = self.others.peek()
                && *due <= self.front.bound()
            {
                let due = *due;
                self.others.pop();
                self.store_in_front_or_beyond(due);
            }
            let found = self.front.events;
            if found > REFILL_MAX {
                self.horizon -= self.horizon / 4;
            } else if found < REFILL_MIN && self.horizon < u64::MAX / 4 {
                self.horizon += self.horizon / 4 + 1;
            }
            if found > 0 {
                return true;
            }
            let slots = self.from.iter().min().copied().unwrap_or(u64::MAX);
            let other = self.others.peek().map_or(NEVER, |Reverse(due)| *due);
            start = slots.min(time_of_due(other));
            if start == u64::MAX {
                return false;
            }
        }
    }

    fn move_due_slots_to_front(&mut self) {
        for group in 0..self.from.len() {
            if Due::from(self.from[group]) << 64 > self.front.bound() {
                continue;
            }
            self.from[group] = u64::MAX;
            for slot in group * GROUP..(group + 1) * GROUP {
                let due = self.due[slot];
                if due <= self.front.bound() {
                    self.store_in_front_or_beyond(due);
                } else {
                    self.from[group] = time_of_due(due).min(self.from[group]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use wakepath_hardware::Machine;
    use wakepath_hardware::machine::builtin_machine_names;
    use wakepath_policies::PolicySet;
    use wakepath_workloads::{Workload, fio};

    use super::*;
    use crate::simulate;

    thread_local! {
        /// Simulations on this thread carry no event along.
        pub(super) static STORED_AT_ONCE: Cell<bool> = const { Cell::new(false) };
    }

    /// A run's full output as text.
    fn run(machine: &Machine, workload: &Workload, idle: &str, freq: &str) -> String {
        let policies = PolicySet::from_names([idle, freq]).unwrap();
        let run = simulate(machine, workload, &policies, 1).unwrap();
        format!("{} {:?}", serde_json::to_string(&run).unwrap(), run.details)
    }

    #[test]
    fn whole_runs_are_the_same_without_carrying() {
        let job = |lines: &str| -> Workload {
            let start = "[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\nruntime=1\n";
            let text = format!("{start}{lines}");
            fio::parse(&text, "test.fio").unwrap().into()
        };
        let jobs = [
            job("rw=randread\nioengine=psync\n"),
            job("rw=randrw\nioengine=libaio\niodepth=8\nnumjobs=3\nrate_iops=900\n"),
            job("rw=randwrite\nioengine=libaio\niodepth=2\nthinktime=300\nthinktime_spin=50\n"),
        ];
        for machine in builtin_machine_names() {
            let machine = Machine::find(machine).unwrap();
            for (job, (idle, freq)) in jobs.iter().zip([
                ("teo@6.12", "schedutil"),
                ("menu@6.12", "performance"),
                ("ladder", "ondemand"),
            ]) {
                let carried = run(&machine, job, idle, freq);
                STORED_AT_ONCE.set(true);
                let stored = run(&machine, job, idle, freq);
                STORED_AT_ONCE.set(false);
                assert_eq!(carried, stored, "{} {idle} {freq}", machine.name);
            }
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(
            slots in 1_usize..100,
            // Few distinct times, or many.
            range in prop::sample::select(vec![4_u64, 50, 1 << 20]),
            ops in prop::collection::vec((any::<u64>(), 0_usize..1000, 0_u8..8), 1..3000),
        ) {
            let mut queue = EventQueue::new(slots);
            let mut model = BTreeMap::new();
            let mut rank = 0;
            for (number, (time, slot, op)) in ops.into_iter().enumerate() {
                let (time, slot) = (time % range, slot % slots);
                rank += 1;
                let pending = |model: &BTreeMap<(u64, usize), usize>| {
                    model.iter().find(|(_, next)| **next == slot).map(|(due, _)| *due)
                };
                match op {
                    0 | 1 => {
                        queue.push_without_slot(time, number);
                        model.insert((time, rank), slots + number);
                    }
                    2 | 3 => {
                        if let Some(due) = pending(&model) {
                            model.remove(&due);
                        }
                        queue.schedule(slot, time);
                        model.insert((time, rank), slot);
                        prop_assert_eq!(queue.due_time(slot), time);
                    }
                    4 => {
                        if let Some(due) = pending(&model) {
                            model.remove(&due);
                        }
                        queue.cancel(slot);
                    }
                    _ => {
                        let expected = model.pop_first().map(|((time, _), next)| (time, next));
                        prop_assert_eq!(queue.pop_next(), expected);
                    }
                }
            }
            while let Some(((time, _), next)) = model.pop_first() {
                prop_assert_eq!(queue.pop_next(), Some((time, next)));
            }
            prop_assert_eq!(queue.pop_next(), None);
        }
    }
}
