//! A CPU's present activity and progress.

use crate::core::basics::{Cycles, FULL_SHARE, Interrupt};

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the idle state chosen by the governor.
    Idle,
    /// Leaving the idle state.
    Waking,
    /// Serving an interrupt.
    Interrupt,
    /// Running its current task.
    Task,
}

/// A hardware thread's use for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CoreUse {
    /// Nothing, or next to nothing: asleep, or waking up.
    #[default]
    None,
    /// Polling.
    Polls,
    /// Tasks and interrupts.
    Busy,
}

/// A CPU's phase: a stretch of time that ends alone, or with an interrupt.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(super) mode: Mode,
    /// Meaningful in [`Mode::Interrupt`].
    pub(super) serving: Interrupt,
    pub(super) start: u64,
    /// Work left, as of `start`.
    pub(super) work: Cycles,
    /// The work waits for the CPU's turn on an emulated machine.
    pub(super) stopped: bool,
    /// Cold-start work to be done before anything else.
    pub(super) cold: Cycles,
    pub(super) service: InterruptService,
    pub(super) core_use: CoreUse,
    /// The CPU's share in the core's speed, with [`FULL_SHARE`] as all.
    pub(super) share: u64,
}

/// The present or last interrupt's service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InterruptService {
    /// When serving began.
    pub(super) start: u64,
    /// Work to serve the interrupt, and cold-start work before.
    pub(super) work: Cycles,
    pub(super) cold: Cycles,
}

impl Phase {
    /// A CPU after a long idle time.
    pub(super) fn idle() -> Self {
        Self {
            mode: Mode::Idle,
            serving: Interrupt::Reschedule,
            start: 0,
            work: 0,
            stopped: false,
            cold: 0,
            service: InterruptService::default(),
            core_use: CoreUse::None,
            share: FULL_SHARE,
        }
    }

    /// Work as if alone on the core.
    #[inline(always)]
    pub(super) fn alone(&self, work: Cycles) -> Cycles {
        if self.share == FULL_SHARE {
            work
        } else {
            (work * FULL_SHARE).div_ceil(self.share)
        }
    }

    /// Begins to serve an interrupt.
    #[inline(always)]
    pub(super) fn begin_service(&mut self, start: u64, work: Cycles, cold: Cycles) {
        self.service = InterruptService { start, work, cold };
    }
}
