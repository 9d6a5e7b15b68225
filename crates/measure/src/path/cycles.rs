//! Cycles of the calling thread, by the processor's counter (`perf_event_open`).

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Cycles of a thread since a counter was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadCycles {
    /// In user space and in the kernel.
    pub(super) all: u64,
    /// In user space alone.
    pub(super) user: u64,
}

/// Counts cycles of the calling thread since its creation: all of them, and those in user space.
pub(super) struct CycleCounter {
    all: Counter,
    user: Counter,
}

impl CycleCounter {
    /// Begins to count. The error says why cycles cannot be counted: guests mostly have no counters, and without root the
    /// kernel's cycles are hidden where `kernel.perf_event_paranoid` is above 1.
    pub(super) fn start() -> Result<Self, String> {
        Ok(Self {
            all: start_counter(false)?,
            user: start_counter(true)?,
        })
    }

    /// Cycles so far; `None` where a counter cannot be read.
    pub(super) fn read(&mut self) -> Option<ThreadCycles> {
        Some(ThreadCycles {
            all: self.all.read().ok()?,
            user: self.user.read().ok()?,
        })
    }
}

fn start_counter(user_space_alone: bool) -> Result<Counter, String> {
    let built = Builder::new(Hardware::CPU_CYCLES)
        .exclude_kernel(user_space_alone)
        .exclude_hv(true)
        .build();
    let mut counter = built.map_err(|error| format!("perf_event_open: {error}"))?;
    counter
        .enable()
        .map_err(|error| format!("perf_event_open: {error}"))?;
    Ok(counter)
}
