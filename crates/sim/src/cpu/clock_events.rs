//! A CPU's clock events: tick and timers.

use crate::core::basics::{NEVER, Timer};
use crate::cpu::timers::Timers;
use crate::scheduler::fair_server::FairServer;

/// State of a CPU's scheduler tick.
#[derive(Debug)]
pub(crate) struct Tick {
    pub(super) stopped: bool,
    /// Next tick; with the tick stopped, the last awake CPU's next look at the timers on all CPUs.
    pub(super) next: u64,
}

impl Tick {
    /// A stopped tick, as on a CPU that has been idle for long.
    pub(super) fn stopped() -> Self {
        Self {
            stopped: true,
            next: NEVER,
        }
    }

    /// Restarts a stopped tick, at the next multiple of `period` ns.
    pub(super) fn restart(&mut self, now: u64, period: u64) {
        self.stopped = false;
        self.next = (now / period + 1) * period;
    }
}

/// A CPU's timers.
#[derive(Debug, Default)]
pub(crate) struct CpuTimers {
    /// The deadline server for fair tasks, with its high-resolution timer.
    pub(super) fair_server: FairServer,
    /// The CPU's high-resolution timers.
    pub(super) precise: Timers,
    /// The CPU's timer-wheel timers, which wake a stopped tick.
    pub(super) wheel: Timers,
}

impl CpuTimers {
    /// Time in ns when the CPU's first timer of any kind expires.
    #[inline(always)]
    pub(super) fn next_expiry(&self) -> u64 {
        let timers = self.precise.next_expiry().min(self.wheel.next_expiry());
        timers.min(self.fair_server.timer_expiry())
    }

    /// Removes all timers due by `now` and hands them to `expired`. Returns whether any was on the timer wheel.
    pub(super) fn take_expired(&mut self, now: u64, mut expired: impl FnMut(Timer)) -> bool {
        if self.fair_server.stop_if_timer_fires(now) {
            expired(Timer::FairServer);
        }
        self.precise.take_expired(now, &mut expired);
        self.wheel.take_expired(now, &mut expired)
    }
}
