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
    /// All other CPUs sleep without a tick, so that this CPU has to see to all timers.
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

    /// Whether the machine has such timers.
    #[inline(always)]
    pub(super) fn exist(&self) -> bool {
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

    /// Lets timers expire on a CPU by `now`: the CPU's own timers, and timers from CPUs asleep without a tick.
    #[cold]
    pub(super) fn expire(&mut self, now: u64, cpu: CpuId, cpus: &mut [Cpu]) {
        for (source, timer) in self.timers.iter_mut().enumerate() {
            if timer.at <= now && (timer.cpu == cpu || cpus[timer.cpu].tick.stopped) {
                timer.at = NEVER;
                let expired = Interrupt::Timer(Timer::Background(source));
                cpus[cpu].interrupts.push_back(expired);
            }
        }
    }

    /// When timers expire, for a CPU's idle loop.
    #[cold]
    pub(super) fn expiry_for(&self, cpu: CpuId, cpus: &[Cpu]) -> MigratoryExpiry {
        let own = self.timers.iter().filter(|timer| timer.cpu == cpu);
        let mut others = (0..cpus.len()).filter(|other| *other != cpu);
        MigratoryExpiry {
            own: own.map(|timer| timer.at).min().unwrap_or(NEVER),
            all: (self.timers.iter().map(|timer| timer.at).min()).unwrap_or(NEVER),
            last: others.all(|other| cpus[other].tick.stopped),
        }
    }
}
