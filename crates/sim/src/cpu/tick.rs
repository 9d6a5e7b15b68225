//! A CPU's ticks and timers.

use crate::core::basics::{CpuId, Interrupt, NEVER, Timer};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// The first tick at a time or after it.
    pub(crate) fn tick_from(&self, at: u64) -> u64 {
        at.next_multiple_of(self.setup.cpu.tick_period)
    }

    /// A `nohz_full` CPU with one task to run needs no tick (`can_stop_full_tick()`).
    #[inline]
    pub(crate) fn stop_tick(&mut self, cpu: CpuId) {
        if self.setup.cpu.is_nohz_full(cpu) && self.cpus[cpu].run_queue.tasks() == 1 {
            let c = &mut self.cpus[cpu];
            c.tick.stopped = true;
            c.tick.next = NEVER;
            self.arm_clock(cpu);
        }
    }

    /// A second task brings a `nohz_full` CPU's tick back.
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

    /// Whether a CPU's next clock event is scheduled as due.
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

    /// Starts a timer-wheel timer on a CPU.
    pub(crate) fn start_wheel_timer(&mut self, cpu: CpuId, at: u64, timer: Timer) {
        self.cpus[cpu].timers.wheel.add(at, timer);
        self.arm_clock(cpu);
    }

    /// A CPU has run a task until now, and so used runtime from the server for fair tasks.
    #[inline(always)]
    pub(crate) fn fair_tasks_ran(&mut self, cpu: CpuId) {
        if self.setup.cpu.fair_server && self.cpus[cpu].timers.fair_server.runs(self.context.now())
        {
            self.arm_clock(cpu);
        }
    }

    /// Schedules a CPU's next clock event, if changed.
    pub(crate) fn arm_clock(&mut self, cpu: CpuId) {
        let at = self.cpus[cpu].next_clock_event();
        if at == NEVER {
            self.context.cancel(Slot::Clock(cpu));
        } else {
            self.context.reschedule(Slot::Clock(cpu), at);
        }
    }

    /// A CPU's clock event: tick and due timers become interrupts.
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
            // This CPU was the last to go to sleep, and had to see to all timers.
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

    /// A CPU has left the idle state: if timers woke the CPU, more timers may be due by now.
    #[inline(always)]
    pub(crate) fn expire_early_on_waking(&mut self, cpu: CpuId) {
        if self.setup.cpu.timer_slack > 0 && self.cpus[cpu].has_timer_interrupt() {
            self.expire_early(cpu);
        }
    }

    /// A CPU's timer interrupt also takes high-resolution timers whose slack allows so.
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
