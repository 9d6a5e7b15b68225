//! RCU on the way of CPUs: at their ticks, in its soft interrupt, and in the thread of grace periods.

use crate::core::basics::{CpuId, Interrupt, TaskId};
use crate::engine::Engine;
use crate::observe::observer::Observer;
use crate::rcu::state::ThreadSleep;

impl<O: Observer> Engine<'_, O> {
    /// A tick on a CPU looks whether RCU has something to do.
    #[inline(always)]
    pub(crate) fn rcu_tick(&mut self, cpu: CpuId) {
        if let Some(rcu) = &self.rcu
            && rcu.tick(&mut self.cpus[cpu].rcu)
        {
            self.cpus[cpu].raise(Interrupt::Rcu);
        }
    }

    /// RCU's soft interrupt on a CPU.
    #[cold]
    pub(crate) fn rcu_soft_interrupt(&mut self, cpu: CpuId) {
        let Some((rcu, thread)) = self.rcu.as_mut().zip(self.setup.grace_period_thread()) else {
            return;
        };
        if rcu.soft_interrupt(cpu, &mut self.cpus[cpu].rcu) && !self.tasks[thread].runnable {
            self.stop_roaming_timer(thread);
            self.tasks[thread].give_work(self.setup.background[thread].cycles());
            self.wake_task(Some(cpu), thread, self.choose_cpu(thread, None));
        }
    }

    /// The thread of grace periods has worked on a CPU, and is about to sleep.
    #[cold]
    pub(crate) fn end_grace_period_work(&mut self, cpu: CpuId, thread: TaskId) {
        let Some(rcu) = &mut self.rcu else { return };
        let mut own = std::mem::take(&mut self.cpus[cpu].rcu);
        let sleep = rcu.work(cpu, &mut own, |other| {
            if let Some(c) = self.cpus.get(other) {
                return (!c.is_busy(), c.times_idle());
            }
            // Of the CPU that plays the drives; it halts after each of its interrupts.
            let halted = self
                .turns
                .as_ref()
                .is_some_and(super::super::emulator::state::Turns::player_is_halted);
            (halted, self.now)
        });
        self.cpus[cpu].rcu = own;
        if sleep == ThreadSleep::UntilScan {
            self.rest_roaming(cpu, thread);
        }
    }
}
