//! Interrupts: arrival at a CPU, and leases granted by completions.

use wakepath_policies::psd::Grant;
use wakepath_units::Nanoseconds;

use crate::core::basics::{CpuId, Interrupt, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::emulator::state::interrupt_rank;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Wakes or pauses a CPU with pending interrupts. Returns whether the CPU can serve them now, and not only later.
    pub(crate) fn prepare_cpu_for_interrupts(&mut self, cpu: CpuId) -> bool {
        if !self.emulator.may_serve_interrupts(cpu) {
            return false;
        }
        let c = &mut self.cpus[cpu];
        match c.phase.mode {
            // A polling CPU can serve interrupts at once, and goes on polling afterwards.
            Mode::Idle if c.idle.polling_until.is_some() => {
                c.account_polling_until(
                    self.context.now(),
                    self.domains[c.domain].current_point_index(),
                );
                true
            }
            Mode::Idle => {
                self.begin_cpu_wake_up(cpu);
                false
            }
            Mode::Task => {
                self.pause_running_work(cpu);
                true
            }
            // The end of the wake-up or interrupt in progress serves them.
            Mode::Waking | Mode::Interrupt => false,
        }
    }

    /// Removes and returns the pending interrupt to serve next, if any.
    #[inline(always)]
    pub(crate) fn take_next_interrupt(&mut self, cpu: CpuId) -> Option<Interrupt> {
        let pending = &mut self.cpus[cpu].interrupts;
        if !self.emulator.cpus_take_turns() || pending.len() < 2 {
            return pending.pop_front();
        }
        self.take_most_urgent_interrupt(cpu)
    }

    /// Removes and returns the pending interrupt that an emulated machine's CPU serves first.
    #[inline(never)]
    fn take_most_urgent_interrupt(&mut self, cpu: CpuId) -> Option<Interrupt> {
        let background = &self.setup.background;
        self.cpus[cpu].take_interrupt_of_least_rank(|interrupt| {
            interrupt_rank(interrupt, |source| background[source].has_wheel_timer())
        })
    }

    /// Grants a CPU a PSD lease, which keeps it from deep idle states for a while, if the policy does so on this occasion.
    #[inline(always)]
    pub(crate) fn grant_psd_lease_on(&mut self, cpu: CpuId, occasion: fn(Grant) -> bool) {
        if let Some((lease, policy)) = &mut self.cpus[cpu].idle.lease
            && occasion(policy.grant)
        {
            lease.handle_io(Nanoseconds(self.context.now()));
            self.start_psd_lease_timer(cpu);
        }
    }

    /// Starts the timer for a CPU's PSD lease, unless running.
    #[inline(never)]
    fn start_psd_lease_timer(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        let now = Nanoseconds(self.context.now());
        if !c.idle.lease_timer
            && let Some((lease, _)) = &c.idle.lease
            && let Some(look) = lease.view_at(now).next_timer_after(now)
        {
            c.idle.lease_timer = true;
            c.timers.precise.add_without_slack(look.0, Timer::Lease);
            self.schedule_next_clock_event(cpu);
        }
    }

    /// Handles the expired timer of a CPU's PSD lease: starts it again while the lease holds.
    pub(crate) fn handle_psd_lease_timer(&mut self, cpu: CpuId) {
        self.cpus[cpu].idle.lease_timer = false;
        self.start_psd_lease_timer(cpu);
    }

    /// Raises RCU's soft interrupt at a CPU's tick, if RCU has something to do there.
    #[inline(always)]
    pub(crate) fn check_rcu_at_tick(&mut self, cpu: CpuId) {
        if let Some(rcu) = &self.rcu
            && rcu.note_tick_and_check_soft_interrupt(&mut self.cpus[cpu].rcu)
        {
            self.cpus[cpu].add_pending_interrupt(Interrupt::Rcu);
        }
    }
}
