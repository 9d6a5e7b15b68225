//! A virtual machine's host takes CPUs that run.
//!
//! A stolen CPU is in the phase of an interrupt without work, which ends at a time and not after cycles. Whatever
//! interrupts it meanwhile waits, and its task goes on afterwards. Like time in interrupts, stolen time is no task's, as with
//! `CONFIG_PARAVIRT_TIME_ACCOUNTING` (`update_rq_clock_task()`, Linux 6.12).
//!
//! Thefts are a Poisson process of each CPU. Those of an idle CPU are dropped: as the process has no memory, running time alone
//! counts.

use crate::core::basics::{CpuId, Interrupt};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Schedules when the host wants a CPU next, on machines with such a host.
    pub(crate) fn schedule_next_theft(&mut self, cpu: CpuId) {
        let Some(host) = self.setup.cpu.stolen else {
            return;
        };
        let gap = (self.context.random_streams()).draw_time_of_host(cpu, host.mean_gap);
        let at = self.context.now() + gap;
        self.context.schedule(Slot::Theft(cpu), at);
    }

    /// Gives a CPU with nothing in progress to the host for a while.
    #[cold]
    pub(crate) fn begin_stolen_time(&mut self, cpu: CpuId) {
        let mean = (self.setup.cpu.stolen).map_or(0.0, |host| host.mean_length);
        let length = (self.context.random_streams()).draw_time_of_host(cpu, mean);
        let phase = &mut self.cpus[cpu].phase;
        phase.serving = Interrupt::Stolen;
        phase.work = 0;
        phase.begin_interrupt_service(self.context.now(), 0, 0);
        self.begin_phase(cpu, Mode::Interrupt, length);
    }

    /// Time in ns until the host gives a stolen CPU back, whatever the CPU's clock does meanwhile.
    #[cold]
    pub(super) fn time_until_host_gives_cpu_back(&self, cpu: CpuId) -> u64 {
        let end = self.context.due_time_or_never(Slot::Phase(cpu));
        end.saturating_sub(self.context.now())
    }
}
