//! Interrupts: their arrival and what they bring.

use wakepath_policies::psd::Grant;
use wakepath_units::Nanoseconds;

use crate::core::basics::{CpuId, Interrupt, Timer};
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::observe::observer::Observer;

impl<O: Observer> Engine<'_, O> {
    pub(crate) fn interrupt(&mut self, cpu: CpuId, interrupt: Interrupt) {
        self.cpus[cpu].interrupts.push_back(interrupt);
        self.kick(cpu);
    }

    /// Makes a CPU look at its pending interrupts.
    pub(crate) fn kick(&mut self, cpu: CpuId) {
        if !self.may_serve(cpu) {
            return;
        }
        let c = &mut self.cpus[cpu];
        match c.phase.mode {
            // A polling CPU serves interrupts and goes on polling.
            Mode::Idle if c.idle.polling_until.is_some() => {
                c.settle_polling(self.now, self.domains[c.domain].current());
                self.next(cpu);
            }
            Mode::Idle => self.begin_wake(cpu),
            Mode::Task => {
                self.pause(cpu);
                self.next(cpu);
            }
            // They are served when the wake-up or the interrupt in progress ends.
            Mode::Waking | Mode::Interrupt => {}
        }
    }

    /// The interrupt that a CPU serves next, if any is pending.
    #[inline(always)]
    pub(crate) fn take_interrupt(&mut self, cpu: CpuId) -> Option<Interrupt> {
        let pending = &mut self.cpus[cpu].interrupts;
        if self.turns.is_none() || pending.len() < 2 {
            return pending.pop_front();
        }
        self.take_most_urgent(cpu)
    }

    pub(crate) fn serve(&mut self, cpu: CpuId, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Completion(request) => self.complete(cpu, request),
            Interrupt::Tick => self.tick(cpu),
            Interrupt::Timer(Timer::Background(index)) => self.background_timer(cpu, index),
            Interrupt::Timer(Timer::Task(task)) => self.task_timer(cpu, task),
            Interrupt::Timer(Timer::WriteBack) => self.look_for_old_pages(cpu),
            Interrupt::Timer(Timer::Lease) => {
                self.cpus[cpu].idle.lease_timer = false;
                self.arm_lease(cpu);
            }
            Interrupt::Rcu => self.rcu_soft_interrupt(cpu),
            Interrupt::Frequency(clock) => self.wake_sugov(cpu, clock),
            Interrupt::Timer(Timer::FairServer) | Interrupt::Reschedule => {}
        }
    }

    /// Keeps a CPU from deep states for a while, if the policy grants leases on this occasion.
    #[inline(always)]
    pub(crate) fn grant_lease(&mut self, cpu: CpuId, occasion: fn(Grant) -> bool) {
        if let Some((lease, policy)) = &mut self.cpus[cpu].idle.lease
            && occasion(policy.grant)
        {
            lease.io(Nanoseconds(self.now));
            self.arm_lease(cpu);
        }
    }

    /// Starts the timer of a lease that has one, unless it runs.
    #[inline(never)]
    fn arm_lease(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        let now = Nanoseconds(self.now);
        if !c.idle.lease_timer
            && let Some((lease, _)) = &c.idle.lease
            && let Some(look) = lease.view(now).next_look(now)
        {
            c.idle.lease_timer = true;
            c.timers.precise.add(look.0, Timer::Lease);
            self.arm_clock(cpu);
        }
    }

    pub(crate) fn tick(&mut self, cpu: CpuId) {
        if self.cpus[cpu].run_queue.current().is_some() {
            self.account_and_report(cpu, false, true, None);
            self.fair_tasks_ran(cpu);
            self.check_turn(cpu);
            self.prefer_core(cpu);
            self.raise_misfit(cpu);
            self.stop_tick(cpu);
        }
        self.rcu_tick(cpu);
    }
}
