//! Ticks and timers of a CPU.

use crate::core::basics::{CpuId, Interrupt, NEVER, Timer};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// The first tick at a time or after it.
    pub(crate) fn tick_from(&self, at: u64) -> u64 {
        at.next_multiple_of(self.setup.cpu.tick_period)
    }

    /// A CPU of `nohz_full` that has one task to run needs no tick (`can_stop_full_tick()`).
    #[inline]
    pub(crate) fn stop_tick(&mut self, cpu: CpuId) {
        if self.setup.cpu.is_nohz_full(cpu) && self.cpus[cpu].run_queue.tasks() == 1 {
            let c = &mut self.cpus[cpu];
            c.tick.stopped = true;
            c.tick.next = NEVER;
            self.arm_clock(cpu);
        }
    }

    /// A second task brings the tick back that such a CPU runs without.
    #[inline]
    pub(crate) fn restart_tick(&mut self, cpu: CpuId) {
        if self.setup.cpu.is_nohz_full(cpu) {
            self.restart_own_tick(cpu);
        }
    }

    #[inline(never)]
    fn restart_own_tick(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        if c.tick.stopped && !c.idle.in_loop && c.run_queue.tasks() > 1 {
            c.tick
                .restart(self.context.now(), self.setup.cpu.tick_period);
            self.arm_clock(cpu);
        }
    }

    /// Whether the next clock event of a CPU is scheduled as it should be.
    pub(crate) fn clock_is_armed(&self, cpu: CpuId) -> bool {
        self.context.due(Slot::Clock(cpu)) == self.cpus[cpu].next_clock_event()
    }

    /// Starts a high-resolution timer on a CPU, which may expire up to `slack` ns before `at`.
    #[inline]
    pub(crate) fn start_timer(&mut self, cpu: CpuId, at: u64, slack: u64, timer: Timer) {
        let timers = &mut self.cpus[cpu].timers.precise;
        timers.add_with_slack(at, slack, timer);
        self.arm_clock(cpu);
    }

    /// Starts a timer of the timer wheel on a CPU.
    pub(crate) fn start_wheel_timer(&mut self, cpu: CpuId, at: u64, timer: Timer) {
        self.cpus[cpu].timers.wheel.add(at, timer);
        self.arm_clock(cpu);
    }

    /// A CPU has run a task until now, which takes runtime from its server for fair tasks.
    #[inline(always)]
    pub(crate) fn fair_tasks_ran(&mut self, cpu: CpuId) {
        if self.setup.cpu.fair_server && self.cpus[cpu].timers.fair_server.runs(self.context.now())
        {
            self.arm_clock(cpu);
        }
    }

    /// Schedules the next clock event of a CPU, if it has changed.
    pub(crate) fn arm_clock(&mut self, cpu: CpuId) {
        let at = self.cpus[cpu].next_clock_event();
        if at == NEVER {
            self.context.cancel(Slot::Clock(cpu));
        } else {
            self.context.reschedule(Slot::Clock(cpu), at);
        }
    }

    /// A CPU's clock event: its tick and the timers that are due become interrupts.
    pub(crate) fn expire_timers(&mut self, cpu: CpuId) {
        let now = self.context.now();
        self.emulator.end_turn();
        let c = &mut self.cpus[cpu];
        if !c.tick.stopped && c.tick.next <= now {
            c.tick.next += self.setup.cpu.tick_period;
            c.idle.got_tick |= c.idle.in_loop;
            c.totals.idle_ticks += u64::from(c.idle.in_loop);
            c.interrupts.push_back(Interrupt::Tick);
        } else if c.tick.next <= now {
            // It was the last CPU that went to sleep, and had to see to the timers of all.
            c.tick.next = NEVER;
            c.idle.got_tick |= c.idle.in_loop;
            self.rcu_tick(cpu);
        }
        let c = &mut self.cpus[cpu];
        let interrupts = &mut c.interrupts;
        let of_wheel =
            (c.timers).expire(now, |timer| interrupts.push_back(Interrupt::Timer(timer)));
        // A stopped tick that was left for a timer-wheel timer counts as a tick.
        if of_wheel {
            c.idle.got_tick |= c.idle.in_loop;
        }
        if self.migratory_timers.exist() {
            self.migratory_timers.expire(now, cpu, &mut self.cpus);
        }
        let awake = self.cpus[cpu].is_busy();
        if self.setup.cpu.timer_slack > 0 && awake {
            self.expire_early(cpu);
        }
        self.arm_clock(cpu);
    }

    /// A CPU has left its idle state: if timers woke it, more of them may be due by now.
    #[inline(always)]
    pub(crate) fn expire_early_on_waking(&mut self, cpu: CpuId) {
        let by_timer = |i: &Interrupt| matches!(i, Interrupt::Tick | Interrupt::Timer(_));
        if self.setup.cpu.timer_slack > 0 && self.cpus[cpu].interrupts.iter().any(by_timer) {
            self.expire_early(cpu);
        }
    }

    /// The interrupt of a CPU's high-resolution timers takes those with it whose slack allows it.
    #[inline]
    pub(crate) fn expire_early(&mut self, cpu: CpuId) {
        let now = self.context.now();
        let c = &mut self.cpus[cpu];
        if c.timers.precise.may_expire(now) {
            let interrupts = &mut c.interrupts;
            c.timers
                .precise
                .expire_early(now, |timer| interrupts.push_back(Interrupt::Timer(timer)));
            self.arm_clock(cpu);
        }
    }
}
