//! A run's calendar: pending events and their owners.
//!
//! CPUs, clocks and devices have slots in the event queue, with one pending event each. A request in a drive is an
//! event without a slot. The [`EventQueue`] only knows numbers: slots by kind, the commonest kind first.

use crate::core::basics::{CpuId, RequestId};
use crate::core::queue::EventQueue;

/// A slot of the event queue: an owner with at most one pending event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// The present phase of a CPU (idle, waking, interrupt or task) ends.
    Phase(CpuId),
    /// A CPU's next tick or timer expires.
    Clock(CpuId),
    /// A clock reaches the frequency last requested.
    Frequency(usize),
    /// A time slot ends, and a cluster's hardware decides about its clocks.
    Hardware(usize),
    /// A completion queue's wait for more completions (coalescing) ends.
    Queue(usize),
    /// An observed drive's power state changes.
    Drive(usize),
    /// The player, an emulator's CPU that plays the drives, ends a wait.
    Player,
    /// The next request to a server arrives.
    Arrival,
    /// The host of a virtual machine takes a CPU, if the CPU runs then.
    Theft(CpuId),
}

/// An event that is due now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The present phase of a CPU (idle, waking, interrupt or task) ends.
    Phase(CpuId),
    /// A CPU's tick or timer is due.
    Clock(CpuId),
    /// A clock reaches the frequency last requested.
    Frequency(usize),
    /// A time slot ends, and a cluster's hardware decides about its clocks.
    Hardware(usize),
    /// A queue, a drive, the player, the arrivals or a CPU's host, by number among these: see [`Calendar::slot_of_device`].
    Device(usize),
    /// A drive has finished a request.
    Served(RequestId),
}

/// A run's pending events, with one slot for each owner.
#[derive(Debug)]
pub(crate) struct Calendar {
    queue: EventQueue,
    cpus: usize,
    clocks: usize,
    /// Number of completion queues with coalescing.
    queues: usize,
    /// Number of drives whose power state an observer watches.
    drives: usize,
    /// Number of slots for arrivals: 1 with a server, or tasks that wait for a network; otherwise 0.
    arrivals: usize,
    /// Number of CPUs that a host takes at times: all or none.
    stolen_cpus: usize,
}

impl Calendar {
    pub(crate) fn new(
        cpus: usize,
        clocks: usize,
        queues: usize,
        drives: usize,
        has_arrivals: bool,
        is_stolen_from: bool,
    ) -> Self {
        let arrivals = usize::from(has_arrivals);
        let stolen_cpus = if is_stolen_from { cpus } else { 0 };
        Self {
            queue: EventQueue::new(
                2 * (cpus + clocks) + queues + drives + 1 + arrivals + stolen_cpus,
            ),
            cpus,
            clocks,
            queues,
            drives,
            arrivals,
            stolen_cpus,
        }
    }

    /// A slot's number in the event queue.
    #[inline(always)]
    fn slot_number(&self, slot: Slot) -> usize {
        match slot {
            Slot::Phase(cpu) => cpu,
            Slot::Clock(cpu) => self.cpus + cpu,
            Slot::Frequency(clock) => 2 * self.cpus + clock,
            // There are at most as many clusters as clocks, so their slots fit.
            Slot::Hardware(cluster) => 2 * self.cpus + self.clocks + cluster,
            Slot::Queue(queue) => self.first_completion_queue_slot() + queue,
            Slot::Drive(drive) => self.first_completion_queue_slot() + self.queues + drive,
            Slot::Player => self.first_completion_queue_slot() + self.queues + self.drives,
            Slot::Arrival => self.first_completion_queue_slot() + self.queues + self.drives + 1,
            Slot::Theft(cpu) => {
                let rest = self.queues + self.drives + 1 + self.arrivals + cpu;
                self.first_completion_queue_slot() + rest
            }
        }
    }

    /// Number of the first completion queue's slot in the event queue.
    #[inline(always)]
    fn first_completion_queue_slot(&self) -> usize {
        2 * (self.cpus + self.clocks)
    }

    /// The event that a number from the event queue stands for.
    #[inline(always)]
    fn event_for_number(&self, number: usize) -> Event {
        let frequencies = 2 * self.cpus;
        let hardware = frequencies + self.clocks;
        let queues = hardware + self.clocks;
        let requests = queues + self.queues + self.drives + 1 + self.arrivals + self.stolen_cpus;
        match number {
            n if n < self.cpus => Event::Phase(n),
            n if n < frequencies => Event::Clock(n - self.cpus),
            n if n < hardware => Event::Frequency(n - frequencies),
            n if n < queues => Event::Hardware(n - hardware),
            n if n < requests => Event::Device(n - queues),
            n => Event::Served(n - requests),
        }
    }

    /// The slot for a device event: completion queues come first, then drives, the player, arrivals, and hosts of CPUs.
    pub(crate) fn slot_of_device(&self, device: usize) -> Slot {
        match device.checked_sub(self.queues) {
            None => Slot::Queue(device),
            Some(drive) if drive < self.drives => Slot::Drive(drive),
            Some(player) if player == self.drives => Slot::Player,
            Some(other) => match other - self.drives - 1 {
                arrival if arrival < self.arrivals => Slot::Arrival,
                theft => Slot::Theft(theft - self.arrivals),
            },
        }
    }

    /// Schedules a slot's event at `time` ns; replaces the slot's pending event.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, slot: Slot, time: u64) {
        self.queue.schedule(self.slot_number(slot), time);
    }

    /// Cancels a slot's pending event, if any.
    #[inline(always)]
    pub(crate) fn cancel(&mut self, slot: Slot) {
        self.queue.cancel(self.slot_number(slot));
    }

    /// Time in ns when a slot's event is due; [`NEVER`](crate::core::basics::NEVER) if none is pending.
    #[inline(always)]
    pub(crate) fn due_time_or_never(&self, slot: Slot) -> u64 {
        self.queue.due_time(self.slot_number(slot))
    }

    /// Schedules a slot's event at `time` ns, unless the event is due at that time already.
    #[inline(always)]
    pub(crate) fn schedule_unless_due_then(&mut self, slot: Slot, time: u64) {
        let number = self.slot_number(slot);
        if time != self.queue.due_time(number) {
            self.queue.schedule(number, time);
        }
    }

    /// Schedules the event that a drive has finished a request, at `time` ns.
    #[inline(always)]
    pub(crate) fn schedule_end_of_drive_service(&mut self, time: u64, request: RequestId) {
        self.queue.push_without_slot(time, request);
    }

    /// Removes and returns the next event and its time in ns; `None` if nothing is pending.
    #[inline(always)]
    pub(crate) fn pop_next_event(&mut self) -> Option<(u64, Event)> {
        let (time, number) = self.queue.pop_next()?;
        Some((time, self.event_for_number(number)))
    }
}
