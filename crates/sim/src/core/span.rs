//! The part of a run that its figures cover.

/// Begin and end in ns of the part of a run that its figures cover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    begin: u64,
    end: u64,
    requests_from: u64,
    events: u64,
}

impl Span {
    /// A run whose warm-up was over at `begin`, and whose requests count from `requests_from` on.
    pub(crate) fn new(begin: u64, end: u64, requests_from: u64, events: u64) -> Self {
        Self {
            begin,
            end,
            requests_from,
            events,
        }
    }

    /// Time in ns when the warm-up ended, from which on all totals count.
    pub(crate) fn end_of_warm_up(&self) -> u64 {
        self.begin
    }

    /// Time in ns when the run ended.
    pub(crate) fn end_of_run(&self) -> u64 {
        self.end
    }

    /// Duration in ns of the run after its warm-up.
    pub(crate) fn time_after_warm_up(&self) -> u64 {
        self.end - self.begin
    }

    /// Duration in ns from the first time that requests count until the run's end.
    pub(crate) fn time_with_counted_requests(&self) -> u64 {
        self.end.saturating_sub(self.requests_from)
    }

    /// Number of events handled in the run, the warm-up's included.
    pub(crate) fn event_count(&self) -> u64 {
        self.events
    }
}
