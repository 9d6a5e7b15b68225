//! A CPU's present phase: its activity, and progress in the work.

use crate::core::basics::{Cycles, FULL_SHARE, Interrupt};

/// What kind of phase a CPU is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The CPU is in the idle state that its governor chose.
    Idle,
    /// The CPU leaves its idle state.
    Waking,
    /// The CPU serves an interrupt.
    Interrupt,
    /// The CPU runs its current task.
    Task,
}

/// A hardware thread's use for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CoreUse {
    /// The thread uses nothing of the core, or next to nothing: asleep, or waking up.
    #[default]
    None,
    /// The thread polls in an idle state.
    Polls,
    /// The thread runs tasks or interrupts.
    Busy,
}

/// A CPU's phase: a stretch of time that ends alone, or with an interrupt.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(super) mode: Mode,
    /// The interrupt being served; meaningful only in [`Mode::Interrupt`].
    pub(super) serving: Interrupt,
    pub(super) start: u64,
    /// Work in cycles that was left at the time `start`.
    pub(super) work: Cycles,
    /// Whether the work is stopped until the CPU's next turn, on an emulated machine.
    pub(super) stopped: bool,
    /// Work to refill caches after a sleep, done before anything else.
    pub(super) cold: Cycles,
    pub(super) service: InterruptService,
    pub(super) core_use: CoreUse,
    /// The CPU's share in the core's speed, with [`FULL_SHARE`] as all.
    pub(super) share: u64,
}

/// The present or last interrupt's service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InterruptService {
    /// Time in ns when serving the interrupt began.
    pub(super) start: u64,
    /// Work to serve the interrupt, and cold-start work before.
    pub(super) work: Cycles,
    pub(super) cold: Cycles,
}

impl Phase {
    /// The phase of a CPU that has been idle for long.
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

    /// Work in cycles, enlarged as if the thread were alone on its core: a smaller share in the core means more.
    #[inline(always)]
    pub(super) fn work_as_if_alone_on_core(&self, work: Cycles) -> Cycles {
        if self.share == FULL_SHARE {
            work
        } else {
            (work * FULL_SHARE).div_ceil(self.share)
        }
    }

    /// Begins to serve an interrupt.
    #[inline(always)]
    pub(super) fn begin_interrupt_service(&mut self, start: u64, work: Cycles, cold: Cycles) {
        self.service = InterruptService { start, work, cold };
    }
}
