//! Interrupts: arrival at a CPU, and leases granted by completions.

use wakepath_policies::psd::Grant;
use wakepath_units::Nanoseconds;

use crate::core::basics::{CpuId, Interrupt, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::emulator::state::interrupt_rank;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Makes a CPU notice pending interrupts. Returns whether the CPU is free to serve them now.
    pub(crate) fn notice_interrupts(&mut self, cpu: CpuId) -> bool {
        if !self.emulator.may_serve(cpu) {
            return false;
        }
        let c = &mut self.cpus[cpu];
        match c.phase.mode {
            // A polling CPU serves interrupts and goes on polling.
            Mode::Idle if c.idle.polling_until.is_some() => {
                c.settle_polling(self.context.now(), self.domains[c.domain].current());
                true
            }
            Mode::Idle => {
                self.begin_wake(cpu);
                false
            }
            Mode::Task => {
                self.pause(cpu);
                true
            }
            // The end of the wake-up or interrupt in progress serves them.
            Mode::Waking | Mode::Interrupt => false,
        }
    }

    /// The interrupt to serve next, if any is pending.
    #[inline(always)]
    pub(crate) fn take_interrupt(&mut self, cpu: CpuId) -> Option<Interrupt> {
        let pending = &mut self.cpus[cpu].interrupts;
        if !self.emulator.takes_turns() || pending.len() < 2 {
            return pending.pop_front();
        }
        self.take_most_urgent(cpu)
    }

    /// The interrupt to serve first on an emulated machine's CPU.
    #[inline(never)]
    fn take_most_urgent(&mut self, cpu: CpuId) -> Option<Interrupt> {
        let background = &self.setup.background;
        self.cpus[cpu].take_interrupt_by(|interrupt| {
            interrupt_rank(interrupt, |source| background[source].is_on_wheel())
        })
    }

    /// Keeps a CPU from deep states for a while, if the policy grants leases on this occasion.
    #[inline(always)]
    pub(crate) fn grant_lease(&mut self, cpu: CpuId, occasion: fn(Grant) -> bool) {
        if let Some((lease, policy)) = &mut self.cpus[cpu].idle.lease
            && occasion(policy.grant)
        {
            lease.handle_io(Nanoseconds(self.context.now()));
            self.arm_lease(cpu);
        }
    }

    /// Starts a lease's timer, unless running.
    #[inline(never)]
    fn arm_lease(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        let now = Nanoseconds(self.context.now());
        if !c.idle.lease_timer
            && let Some((lease, _)) = &c.idle.lease
            && let Some(look) = lease.view_at(now).next_timer_after(now)
        {
            c.idle.lease_timer = true;
            c.timers.precise.add(look.0, Timer::Lease);
            self.arm_clock(cpu);
        }
    }

    /// A lease's timer has expired.
    pub(crate) fn lease_timer(&mut self, cpu: CpuId) {
        self.cpus[cpu].idle.lease_timer = false;
        self.arm_lease(cpu);
    }

    /// A tick on a CPU looks whether RCU has something to do.
    #[inline(always)]
    pub(crate) fn rcu_tick(&mut self, cpu: CpuId) {
        if let Some(rcu) = &self.rcu
            && rcu.tick(&mut self.cpus[cpu].rcu)
        {
            self.cpus[cpu].raise(Interrupt::Rcu);
        }
    }
}
