//! A CPU's clock events: tick and timers.

use crate::core::basics::{NEVER, Timer};
use crate::cpu::timers::Timers;
use crate::scheduler::fair_server::FairServer;

/// A CPU's scheduler tick.
#[derive(Debug)]
pub(crate) struct Tick {
    pub(super) stopped: bool,
    /// Next tick; with the tick stopped, the last awake CPU's next look at the timers on all CPUs.
    pub(super) next: u64,
}

impl Tick {
    /// The tick after a long idle time.
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

/// A CPU's timers.
#[derive(Debug, Default)]
pub(crate) struct CpuTimers {
    /// The server for fair tasks, with a high-resolution timer.
    pub(super) fair_server: FairServer,
    /// High-resolution timers.
    pub(super) precise: Timers,
    /// Timer-wheel timers, which wake a stopped tick.
    pub(super) wheel: Timers,
}

impl CpuTimers {
    /// When the first timer expires, whatever kind.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        let timers = self.precise.next().min(self.wheel.next());
        timers.min(self.fair_server.timer())
    }

    /// Takes out the timers due by `now`. Returns whether the timer wheel had any.
    pub(super) fn expire(&mut self, now: u64, mut expired: impl FnMut(Timer)) -> bool {
        if self.fair_server.expire(now) {
            expired(Timer::FairServer);
        }
        self.precise.expire(now, &mut expired);
        self.wheel.expire(now, &mut expired)
    }
}
