//! Cycles of the calling thread, by the processor's counter (`perf_event_open`).

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Counts cycles of the calling thread in user space and in the kernel since its creation.
pub(super) struct CycleCounter(Counter);

impl CycleCounter {
    /// Begins to count. The error says why cycles cannot be counted: guests mostly have no counters, and without root the
    /// kernel's cycles are hidden where `kernel.perf_event_paranoid` is above 1.
    pub(super) fn start() -> Result<Self, String> {
        let built = Builder::new(Hardware::CPU_CYCLES)
            .exclude_kernel(false)
            .exclude_hv(true)
            .build();
        let mut counter = built.map_err(|error| format!("perf_event_open: {error}"))?;
        counter
            .enable()
            .map_err(|error| format!("perf_event_open: {error}"))?;
        Ok(Self(counter))
    }

    /// Cycles so far; `None` where the counter cannot be read.
    pub(super) fn read(&mut self) -> Option<u64> {
        self.0.read().ok()
    }
}
