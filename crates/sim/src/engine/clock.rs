//! Ticks, timers and background work of a CPU.

use super::{Engine, Slot};
use crate::basics::{CpuId, Interrupt, NEVER, Timer};
use crate::observe::observer::Observer;

impl<O: Observer> Engine<'_, O> {
    /// Arms the next arrival of a background source on a CPU.
    pub(super) fn arm_background(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index];
        let mean = match self.setup.keeps_house_for[cpu] {
            0 => return,
            1 => source.mean_interval,
            served => source.mean_interval / f64::from(served),
        };
        let delay = match source.periodic {
            false => self.random.background(cpu, index, mean),
            // The first one comes at any time within a period.
            true if self.now == 0 => {
                self.random.background(cpu, index, mean) % (mean as u64).max(1)
            }
            true => mean as u64,
        };
        let timer = Timer::Background(index);
        if source.as_task {
            // A timer-wheel timer expires with a tick.
            let period = self.setup.tick_period;
            let at = (self.now + delay).div_ceil(period) * period;
            self.cpus[cpu].wheel.add(at, timer);
        } else {
            self.cpus[cpu].timers.add(self.now + delay, timer);
        }
    }

    /// A CPU of `nohz_full` that has one task to run needs no tick (`can_stop_full_tick()`).
    pub(super) fn stop_tick(&mut self, cpu: CpuId) {
        if self.setup.is_nohz_full(cpu) && self.cpus[cpu].tasks() == 1 {
            let c = &mut self.cpus[cpu];
            c.tick_stopped = true;
            c.next_tick = NEVER;
            self.arm_clock(cpu);
        }
    }

    /// A second task brings the tick back that such a CPU runs without.
    pub(super) fn restart_tick(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        if self.setup.is_nohz_full(cpu) && c.tick_stopped && !c.in_idle_loop && c.tasks() > 1 {
            let period = self.setup.tick_period;
            c.tick_stopped = false;
            c.next_tick = (self.now / period + 1) * period;
            self.arm_clock(cpu);
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

    /// Whether the next clock event of a CPU is scheduled as it should be.
    pub(super) fn clock_is_armed(&self, cpu: CpuId) -> bool {
        self.queue.due(self.number(Slot::Clock(cpu))) == self.cpus[cpu].next_clock_event()
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
            c.next_tick += self.setup.tick_period;
            c.got_tick |= c.in_idle_loop;
            c.interrupts.push_back(Interrupt::Tick);
        }
        let mut pend = |timer| c.interrupts.push_back(Interrupt::Timer(timer));
        c.timers.expire(now, &mut pend);
        // A stopped tick that was left for a timer-wheel timer counts as a tick.
        if c.wheel.expire(now, &mut pend) {
            c.got_tick |= c.in_idle_loop;
        }
        self.arm_clock(cpu);
        self.kick(cpu);
    }
}
