//! Ticks, timers and background work of a CPU.

use std::collections::VecDeque;

use super::{Engine, Slot};
use crate::cpu::{CpuId, Interrupt, NEVER, Timer};
use crate::observer::Observer;

impl<O: Observer> Engine<'_, O> {
    /// Arms the next arrival of a background source on a CPU.
    pub(super) fn arm_background(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index];
        let delay = self.random.background(cpu, index, source.mean_interval);
        let timer = Timer::Background(index);
        if source.as_task {
            // A timer-wheel timer expires with a tick.
            let period = self.setup.tick.period().0;
            let at = (self.now + delay).div_ceil(period) * period;
            self.cpus[cpu].wheel.push((at, timer));
        } else {
            self.cpus[cpu].timers.push((self.now + delay, timer));
        }
    }

    pub(super) fn schedule(&mut self, slot: Slot, time: u64) {
        self.queue.schedule(self.number(slot), time);
    }

    pub(super) fn cancel(&mut self, slot: Slot) {
        self.queue.cancel(self.number(slot));
    }

    /// The number of a slot in the event queue.
    pub(super) fn number(&self, slot: Slot) -> usize {
        slot.number(self.cpus.len(), self.domains.len())
    }

    /// Schedules the next clock event of a CPU, if it has changed.
    pub(super) fn arm_clock(&mut self, cpu: CpuId) {
        let slot = self.number(Slot::Clock(cpu));
        let at = self.cpus[cpu].next_clock_event();
        if at == NEVER {
            self.queue.cancel(slot);
        } else if at != self.queue.due(slot) {
            self.queue.schedule(slot, at);
        }
    }

    pub(super) fn clock(&mut self, cpu: CpuId) {
        let now = self.now;
        let c = &mut self.cpus[cpu];
        if !c.tick_stopped && c.next_tick <= now {
            c.next_tick += self.setup.tick.period().0;
            c.got_tick |= c.in_idle_loop;
            c.interrupts.push_back(Interrupt::Tick);
        }
        expire(&mut c.timers, now, &mut c.interrupts);
        // A stopped tick that was left for a timer-wheel timer counts as a tick.
        if expire(&mut c.wheel, now, &mut c.interrupts) {
            c.got_tick |= c.in_idle_loop;
        }
        self.arm_clock(cpu);
        self.kick(cpu);
    }
}

/// Moves the timers that are due to the pending interrupts. Returns whether there were any.
fn expire(timers: &mut Vec<(u64, Timer)>, now: u64, interrupts: &mut VecDeque<Interrupt>) -> bool {
    let before = timers.len();
    timers.retain(|(at, timer)| {
        let due = *at <= now;
        if due {
            interrupts.push_back(Interrupt::Timer(*timer));
        }
        !due
    });
    timers.len() != before
}
