//! Timers of the timer wheel that other CPUs take over.

use crate::core::basics::{CpuId, NEVER};

/// A timer of the timer wheel that another CPU takes over while its own sleeps (`kernel/time/timer_migration.c`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigratoryTimer {
    /// When it expires; [`NEVER`] if it does not run.
    pub(super) at: u64,
    /// Its own CPU.
    pub(super) cpu: CpuId,
}

impl Default for MigratoryTimer {
    fn default() -> Self {
        Self { at: NEVER, cpu: 0 }
    }
}

/// Timers that may be taken over, as the idle loop of one CPU sees them.
pub(crate) struct MigratoryTimers {
    /// When the first one of its own expires.
    pub(super) own: u64,
    /// When the first one of any CPU expires.
    pub(super) all: u64,
    /// All other CPUs sleep without a tick, so that this one has to see to all.
    pub(super) last: bool,
}
