//! A CPU's ticks and timers.

use crate::core::basics::{CpuId, Interrupt, NEVER, Timer};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Time in ns of the first tick at or after a time.
    pub(crate) fn first_tick_at_or_after(&self, at: u64) -> u64 {
        at.next_multiple_of(self.setup.cpu.tick_period)
    }

    /// A `nohz_full` CPU with one task to run needs no tick (`can_stop_full_tick()`).
    #[inline]
    pub(crate) fn stop_tick_if_nohz_full(&mut self, cpu: CpuId) {
        if self.setup.cpu.is_nohz_full(cpu) && self.cpus[cpu].run_queue.task_count() == 1 {
            let c = &mut self.cpus[cpu];
            c.tick.stopped = true;
            c.tick.next = NEVER;
            self.schedule_next_clock_event(cpu);
        }
    }

    /// A second task brings a `nohz_full` CPU's tick back.
    #[inline]
    pub(crate) fn restart_tick_if_nohz_full(&mut self, cpu: CpuId) {
        if self.setup.cpu.is_nohz_full(cpu) {
            self.restart_tick_for_second_task(cpu);
        }
    }

    #[inline(never)]
    fn restart_tick_for_second_task(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        if c.tick.stopped && !c.idle.in_loop && c.run_queue.task_count() > 1 {
            c.tick
                .restart(self.context.now(), self.setup.cpu.tick_period);
            self.schedule_next_clock_event(cpu);
        }
    }

    /// Whether the event queue has a CPU's next tick or timer at the right time.
    pub(crate) fn clock_event_is_scheduled(&self, cpu: CpuId) -> bool {
        self.context.due_time_or_never(Slot::Clock(cpu)) == self.cpus[cpu].next_clock_event_time()
    }

    /// Starts a high-resolution timer on a CPU, which may expire up to `slack` ns before `at`.
    #[inline]
    pub(crate) fn start_high_resolution_timer(
        &mut self,
        cpu: CpuId,
        at: u64,
        slack: u64,
        timer: Timer,
    ) {
        let timers = &mut self.cpus[cpu].timers.precise;
        timers.add_with_slack(at, slack, timer);
        self.schedule_next_clock_event(cpu);
    }

    /// Cancels a high-resolution timer of a CPU, if it is pending.
    pub(crate) fn cancel_high_resolution_timer(&mut self, cpu: CpuId, timer: Timer) {
        if self.cpus[cpu].timers.precise.remove(timer) {
            self.schedule_next_clock_event(cpu);
        }
    }

    /// Starts a timer-wheel timer on a CPU.
    pub(crate) fn start_wheel_timer(&mut self, cpu: CpuId, at: u64, timer: Timer) {
        self.cpus[cpu].timers.wheel.add_without_slack(at, timer);
        self.schedule_next_clock_event(cpu);
    }

    /// Charges the deadline server for fair tasks: a CPU has run a fair task until now.
    #[inline(always)]
    pub(crate) fn charge_fair_server(&mut self, cpu: CpuId) {
        if self.setup.cpu.fair_server
            && self.cpus[cpu]
                .timers
                .fair_server
                .note_fair_task_ran(self.context.now())
        {
            self.schedule_next_clock_event(cpu);
        }
    }

    /// Schedules a CPU's next tick or timer in the event queue, if its time has changed.
    pub(crate) fn schedule_next_clock_event(&mut self, cpu: CpuId) {
        let at = self.cpus[cpu].next_clock_event_time();
        if at == NEVER {
            self.context.cancel(Slot::Clock(cpu));
        } else {
            self.context.schedule_unless_due_then(Slot::Clock(cpu), at);
        }
    }

    /// Handles a CPU's clock event: a due tick and due timers become pending interrupts.
    pub(crate) fn handle_clock_event(&mut self, cpu: CpuId) {
        let now = self.context.now();
        self.emulator.request_end_of_turn();
        let c = &mut self.cpus[cpu];
        if !c.tick.stopped && c.tick.next <= now {
            c.tick.next += self.setup.cpu.tick_period;
            c.idle.got_tick |= c.idle.in_loop;
            c.totals.idle_ticks += u64::from(c.idle.in_loop);
            c.interrupts.push_back(Interrupt::Tick);
        } else if c.tick.next <= now {
            // The CPU was the last to go to sleep, and had to wake for all CPUs' migratory timers.
            c.tick.next = NEVER;
            c.idle.got_tick |= c.idle.in_loop;
            self.check_rcu_at_tick(cpu);
        }
        let c = &mut self.cpus[cpu];
        let interrupts = &mut c.interrupts;
        let of_wheel =
            (c.timers).take_expired(now, |timer| interrupts.push_back(Interrupt::Timer(timer)));
        // A stopped tick that was left for a timer-wheel timer counts as a tick.
        if of_wheel {
            c.idle.got_tick |= c.idle.in_loop;
        }
        if self.migratory_timers.machine_has_any() {
            self.migratory_timers
                .expire_on_cpu(now, cpu, &mut self.cpus);
        }
        let awake = self.cpus[cpu].is_busy();
        if self.setup.cpu.timer_slack > 0 && awake {
            self.expire_timers_early(cpu);
        }
        self.schedule_next_clock_event(cpu);
    }

    /// Expires timers with slack early on a CPU that a timer has just woken.
    #[inline(always)]
    pub(crate) fn expire_timers_early_after_wake_up(&mut self, cpu: CpuId) {
        if self.setup.cpu.timer_slack > 0 && self.cpus[cpu].has_pending_timer_interrupt() {
            self.expire_timers_early(cpu);
        }
    }

    /// Expires a CPU's high-resolution timers whose slack allows so, together with its timer interrupt.
    #[inline]
    pub(crate) fn expire_timers_early(&mut self, cpu: CpuId) {
        let now = self.context.now();
        let c = &mut self.cpus[cpu];
        if c.timers.precise.any_may_expire(now) {
            let interrupts = &mut c.interrupts;
            c.timers
                .precise
                .take_expired_early(now, |timer| interrupts.push_back(Interrupt::Timer(timer)));
            self.schedule_next_clock_event(cpu);
        }
    }
}
