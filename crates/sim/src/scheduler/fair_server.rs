//! The scheduler's server for fair tasks, as far as the server's timer keeps a CPU from sleeping for long.
//!
//! `kernel/sched/deadline.c` in Linux 6.12.92 and later, and 6.17 and later: each CPU has a deadline server to run
//! fair tasks if real-time tasks took all time. The timer runs from the first fair task on, and goes on while the CPU
//! is idle. Fair tasks' run time and idle time use up the runtime. Then a new period begins, and the timer starts
//! anew.

use crate::core::basics::NEVER;

/// Runtime of the server in each period in ns, as debugfs has it (`fair_server/cpu0/runtime`).
const RUNTIME: u64 = 50_000_000;

/// Period of the deadline server in ns (`fair_server/cpu0/period`).
const PERIOD: u64 = 1_000_000_000;

/// One CPU's deadline server for fair tasks. The timer fires when only the runtime is left in the period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FairServer {
    /// Time in ns when the server's period began; [`NEVER`] if stopped.
    since: u64,
}

impl Default for FairServer {
    fn default() -> Self {
        Self { since: NEVER }
    }
}

impl FairServer {
    /// Time in ns when the server's timer fires; [`NEVER`] if stopped.
    #[inline]
    pub(crate) fn timer_expiry(self) -> u64 {
        self.since.saturating_add(PERIOD - RUNTIME)
    }

    /// A fair task has run until now. Returns whether the timer starts anew: the runtime is used up, or the server had stopped.
    #[inline(always)]
    pub(crate) fn note_fair_task_ran(&mut self, now: u64) -> bool {
        let anew = self.since == NEVER || now - self.since >= RUNTIME;
        if anew {
            self.since = now;
        }
        anew
    }

    /// Stops the server if its timer fires now, since no fair task has run. Returns whether it fires.
    pub(crate) fn stop_if_timer_fires(&mut self, now: u64) -> bool {
        let fires = self.timer_expiry() <= now;
        if fires {
            self.since = NEVER;
        }
        fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_is_pushed_back_until_no_task_runs_any_more() {
        let ms = 1_000_000;
        let mut server = FairServer::default();
        assert!(!server.stop_if_timer_fires(5000 * ms), "nobody has run");
        assert!(server.note_fair_task_ran(10 * ms));
        assert!(!server.note_fair_task_ran(59 * ms));
        assert_eq!(server.timer_expiry(), 960 * ms);
        assert!(server.note_fair_task_ran(60 * ms));
        assert_eq!(server.timer_expiry(), 1010 * ms);
        assert!(!server.stop_if_timer_fires(1009 * ms));
        assert!(server.stop_if_timer_fires(1010 * ms));
        assert_eq!(server.timer_expiry(), NEVER);
        assert!(server.note_fair_task_ran(2000 * ms));
        assert_eq!(server.timer_expiry(), 2950 * ms);
    }
}
