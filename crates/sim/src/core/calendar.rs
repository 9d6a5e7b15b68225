//! A run's calendar: pending events and their owners.
//!
//! CPUs, clocks and devices have slots in the event queue, with one pending event each. A request in a drive is an
//! event without a slot. The [`EventQueue`] only knows numbers: slots by kind, the commonest kind first.

use crate::core::basics::{CpuId, RequestId};
use crate::core::queue::EventQueue;

/// A slot in the event queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// A CPU's phase ends.
    Phase(CpuId),
    /// A CPU's next tick or timer.
    Clock(CpuId),
    /// A clock's next frequency arrives.
    Frequency(usize),
    /// A time slot ends, when a cluster's hardware looks at the clocks.
    Hardware(usize),
    /// A completion queue's wait for more ends.
    Queue(usize),
    /// A watched drive's power state changes.
    Drive(usize),
    /// The CPU that plays the drives on an emulated machine ends a wait.
    Player,
}

/// Due events.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A CPU's phase ends.
    Phase(CpuId),
    /// A CPU's tick or timer is due.
    Clock(CpuId),
    /// A clock's next frequency arrives.
    Frequency(usize),
    /// A time slot ends, when a cluster's hardware looks at the clocks.
    Hardware(usize),
    /// A queue, a drive or the player, by number among these: see [`Calendar::device`].
    Device(usize),
    /// A drive has finished a request.
    Served(RequestId),
}

/// A run's pending events.
#[derive(Debug)]
pub(crate) struct Calendar {
    queue: EventQueue,
    cpus: usize,
    clocks: usize,
    /// Completion queues with coalescing.
    queues: usize,
    /// Drives with a watched power state.
    drives: usize,
}

impl Calendar {
    pub(crate) fn new(cpus: usize, clocks: usize, queues: usize, drives: usize) -> Self {
        Self {
            queue: EventQueue::new(2 * (cpus + clocks) + queues + drives + 1),
            cpus,
            clocks,
            queues,
            drives,
        }
    }

    /// A slot's number in the queue.
    #[inline(always)]
    fn number(&self, slot: Slot) -> usize {
        match slot {
            Slot::Phase(cpu) => cpu,
            Slot::Clock(cpu) => self.cpus + cpu,
            Slot::Frequency(clock) => 2 * self.cpus + clock,
            // Clusters are at most as many as clocks.
            Slot::Hardware(cluster) => 2 * self.cpus + self.clocks + cluster,
            Slot::Queue(queue) => self.first_queue() + queue,
            Slot::Drive(drive) => self.first_queue() + self.queues + drive,
            Slot::Player => self.first_queue() + self.queues + self.drives,
        }
    }

    /// Number for the first completion queue's slot.
    #[inline(always)]
    fn first_queue(&self) -> usize {
        2 * (self.cpus + self.clocks)
    }

    /// The event for a number in the queue.
    #[inline(always)]
    fn event(&self, number: usize) -> Event {
        let frequencies = 2 * self.cpus;
        let hardware = frequencies + self.clocks;
        let queues = hardware + self.clocks;
        let requests = queues + self.queues + self.drives + 1;
        match number {
            n if n < self.cpus => Event::Phase(n),
            n if n < frequencies => Event::Clock(n - self.cpus),
            n if n < hardware => Event::Frequency(n - frequencies),
            n if n < queues => Event::Hardware(n - hardware),
            n if n < requests => Event::Device(n - queues),
            n => Event::Served(n - requests),
        }
    }

    /// The slot of a queue, a drive or the player, by number among these.
    pub(crate) fn device(&self, number: usize) -> Slot {
        match number.checked_sub(self.queues) {
            None => Slot::Queue(number),
            Some(drive) if drive < self.drives => Slot::Drive(drive),
            Some(_) => Slot::Player,
        }
    }

    /// Schedules a slot's event at `time` ns, in place of a pending one.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, slot: Slot, time: u64) {
        self.queue.schedule(self.number(slot), time);
    }

    /// Takes back a slot's pending event, if any.
    #[inline(always)]
    pub(crate) fn cancel(&mut self, slot: Slot) {
        self.queue.cancel(self.number(slot));
    }

    /// When a slot's event is due; [`NEVER`](crate::core::basics::NEVER) without any.
    #[inline(always)]
    pub(crate) fn due(&self, slot: Slot) -> u64 {
        self.queue.due(self.number(slot))
    }

    /// Schedules a slot's event at `time` ns, unless already due then.
    #[inline(always)]
    pub(crate) fn reschedule(&mut self, slot: Slot, time: u64) {
        let number = self.number(slot);
        if time != self.queue.due(number) {
            self.queue.schedule(number, time);
        }
    }

    /// Schedules a request's end in a drive.
    #[inline(always)]
    pub(crate) fn serve(&mut self, time: u64, request: RequestId) {
        self.queue.push(time, request);
    }

    /// Takes out the next event, with the time in ns.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let (time, number) = self.queue.pop()?;
        Some((time, self.event(number)))
    }
}
