//! The calendar of a run: pending events and their owners.
//!
//! CPUs, clocks and devices have slots in the event queue, with one pending event each. A request in a drive is an event without
//! a slot. The [`EventQueue`] only knows numbers: the slots of one kind after the other, the commonest kind first.

use crate::core::basics::{CpuId, RequestId};
use crate::core::queue::EventQueue;

/// A slot in the event queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// The end of a CPU's phase.
    Phase(CpuId),
    /// A CPU's next tick or timer.
    Clock(CpuId),
    /// The arrival of a clock's next frequency.
    Frequency(usize),
    /// The end of a slot of time in which a cluster's hardware looks at its clocks.
    Hardware(usize),
    /// The end of a completion queue's wait for more.
    Queue(usize),
    /// The next change of a watched drive's power state.
    Drive(usize),
    /// What the CPU that plays the drives of an emulated machine waits for.
    Player,
}

/// What is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Slot(Slot),
    /// A drive has finished a request.
    Served(RequestId),
}

/// The pending events of a run.
#[derive(Debug)]
pub(crate) struct Calendar {
    queue: EventQueue,
    cpus: usize,
    clocks: usize,
    /// Completion queues that collect completions.
    queues: usize,
    /// Drives whose power state is watched.
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

    /// The number of a slot in the queue.
    #[inline(always)]
    fn number(&self, slot: Slot) -> usize {
        match slot {
            Slot::Phase(cpu) => cpu,
            Slot::Clock(cpu) => self.cpus + cpu,
            Slot::Frequency(clock) => 2 * self.cpus + clock,
            // There are at most as many clusters as clocks.
            Slot::Hardware(cluster) => 2 * self.cpus + self.clocks + cluster,
            Slot::Queue(queue) => self.first_queue() + queue,
            Slot::Drive(drive) => self.first_queue() + self.queues + drive,
            Slot::Player => self.first_queue() + self.queues + self.drives,
        }
    }

    /// The number of the first completion queue's slot.
    #[inline(always)]
    fn first_queue(&self) -> usize {
        2 * (self.cpus + self.clocks)
    }

    /// The event of a number in the queue.
    #[inline(always)]
    fn event(&self, number: usize) -> Event {
        let frequencies = 2 * self.cpus;
        let hardware = frequencies + self.clocks;
        let queues = hardware + self.clocks;
        let requests = queues + self.queues + self.drives + 1;
        match number {
            n if n < self.cpus => Event::Slot(Slot::Phase(n)),
            n if n < frequencies => Event::Slot(Slot::Clock(n - self.cpus)),
            n if n < hardware => Event::Slot(Slot::Frequency(n - frequencies)),
            n if n < queues => Event::Slot(Slot::Hardware(n - hardware)),
            n if n < requests => Event::Slot(self.device_slot(n - queues)),
            n => Event::Served(n - requests),
        }
    }

    /// The slot of a queue, a drive or the player, by its number among these.
    #[cold]
    fn device_slot(&self, number: usize) -> Slot {
        match number.checked_sub(self.queues) {
            None => Slot::Queue(number),
            Some(drive) if drive < self.drives => Slot::Drive(drive),
            Some(_) => Slot::Player,
        }
    }

    /// Schedules the event of a slot at `time` ns, in place of a pending one.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, slot: Slot, time: u64) {
        self.queue.schedule(self.number(slot), time);
    }

    /// Takes back the event of a slot, if one is pending.
    #[inline(always)]
    pub(crate) fn cancel(&mut self, slot: Slot) {
        self.queue.cancel(self.number(slot));
    }

    /// When the event of a slot is due; [`NEVER`](crate::core::basics::NEVER) without one.
    #[inline(always)]
    pub(crate) fn due(&self, slot: Slot) -> u64 {
        self.queue.due(self.number(slot))
    }

    /// Schedules the event of a slot at `time` ns, unless it is due then already.
    #[inline(always)]
    pub(crate) fn reschedule(&mut self, slot: Slot, time: u64) {
        let number = self.number(slot);
        if time != self.queue.due(number) {
            self.queue.schedule(number, time);
        }
    }

    /// Schedules the end of a request in a drive.
    #[inline(always)]
    pub(crate) fn serve(&mut self, time: u64, request: RequestId) {
        self.queue.push(time, request);
    }

    /// Takes out the next event, with its time in ns.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let (time, number) = self.queue.pop()?;
        Some((time, self.event(number)))
    }
}
