//! What a CPU's clock interrupts it for: its tick and its timers.

use crate::core::basics::{NEVER, Timer};
use crate::cpu::timers::Timers;
use crate::scheduler::fair_server::FairServer;

/// The scheduler's tick of a CPU.
#[derive(Debug)]
pub(crate) struct Tick {
    pub(super) stopped: bool,
    /// With the tick stopped: when the CPU sees to the timers of all CPUs, if that is its task.
    pub(super) next: u64,
}

impl Tick {
    /// Of a CPU that has been idle for long.
    pub(super) fn stopped() -> Self {
        Self {
            stopped: true,
            next: NEVER,
        }
    }

    /// Brings the tick back, every `period` ns.
    pub(super) fn restart(&mut self, now: u64, period: u64) {
        self.stopped = false;
        self.next = (now / period + 1) * period;
    }
}

/// The timers of a CPU.
#[derive(Debug, Default)]
pub(crate) struct CpuTimers {
    /// The server for fair tasks, whose timer is a high-resolution timer, too.
    pub(super) fair_server: FairServer,
    /// High-resolution timers.
    pub(super) precise: Timers,
    /// Timer-wheel timers, which a stopped tick has to leave for.
    pub(super) wheel: Timers,
}

impl CpuTimers {
    /// When the first timer of any kind expires.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        let timers = self.precise.next().min(self.wheel.next());
        timers.min(self.fair_server.timer())
    }

    /// Takes out the timers that are due by `now`. Returns whether there were any of the timer wheel.
    pub(super) fn expire(&mut self, now: u64, mut expired: impl FnMut(Timer)) -> bool {
        if self.fair_server.expire(now) {
            expired(Timer::FairServer);
        }
        self.precise.expire(now, &mut expired);
        self.wheel.expire(now, &mut expired)
    }
}
