//! Timer-wheel timers moved from sleeping CPUs to awake CPUs (`kernel/time/timer_migration.c`).

use crate::core::basics::{CpuId, Interrupt, NEVER, Timer};
use crate::cpu::state::Cpu;

/// A timer taken over by another CPU while the own CPU sleeps.
#[derive(Clone, Copy, Debug)]
struct MigratoryTimer {
    /// When the timer expires; [`NEVER`] if stopped.
    at: u64,
    /// The timer's own CPU.
    cpu: CpuId,
}

/// Migratory timers by background source; empty if the machine has none.
#[derive(Debug)]
pub(crate) struct MigratoryTimers {
    timers: Vec<MigratoryTimer>,
}

/// Migratory timers' expiry, for one CPU's idle loop.
pub(super) struct MigratoryExpiry {
    /// When this CPU's first timer expires.
    pub(super) own: u64,
    /// When the first timer on any CPU expires.
    pub(super) all: u64,
    /// Whether all other CPUs sleep without a tick, so that this CPU has to wake for all timers.
    pub(super) last: bool,
}

impl MigratoryTimers {
    /// A timer for each of `sources` background sources; 0: the machine has no such timers.
    pub(crate) fn new(sources: usize) -> Self {
        let stopped = MigratoryTimer { at: NEVER, cpu: 0 };
        Self {
            timers: vec![stopped; sources],
        }
    }

    /// Whether the machine has migratory timers.
    #[inline(always)]
    pub(super) fn machine_has_any(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Starts a background source's timer on a CPU.
    pub(crate) fn start(&mut self, source: usize, at: u64, cpu: CpuId) {
        self.timers[source] = MigratoryTimer { at, cpu };
    }

    /// Stops a background source's timer.
    pub(crate) fn stop(&mut self, source: usize) {
        self.timers[source].at = NEVER;
    }

    /// Makes due timers interrupts on a CPU: its own, and those of CPUs asleep without a tick.
    #[cold]
    pub(super) fn expire_on_cpu(&mut self, now: u64, cpu: CpuId, cpus: &mut [Cpu]) {
        for (source, timer) in self.timers.iter_mut().enumerate() {
            if timer.at <= now && (timer.cpu == cpu || cpus[timer.cpu].tick.stopped) {
                timer.at = NEVER;
                let expired = Interrupt::Timer(Timer::Background(source));
                cpus[cpu].interrupts.push_back(expired);
            }
        }
    }

    /// Expiry times of a CPU's own and of all migratory timers, for the CPU's idle loop.
    #[cold]
    pub(super) fn next_expiries_for(&self, cpu: CpuId, cpus: &[Cpu]) -> MigratoryExpiry {
        let own = self.timers.iter().filter(|timer| timer.cpu == cpu);
        let mut others = (0..cpus.len()).filter(|other| *other != cpu);
        MigratoryExpiry {
            own: own.map(|timer| timer.at).min().unwrap_or(NEVER),
            all: (self.timers.iter().map(|timer| timer.at).min()).unwrap_or(NEVER),
            last: others.all(|other| cpus[other].tick.stopped),
        }
    }
}
