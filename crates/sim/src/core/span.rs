//! A run's counted part.

/// Begin and end, in ns, for a run's counted part.
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

    /// End of the warm-up, not counted by any total.
    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    /// End of the run.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// How long the run lasted after its warm-up.
    pub(crate) fn time(&self) -> u64 {
        self.end - self.begin
    }

    /// For how long requests have counted.
    pub(crate) fn counted_time(&self) -> u64 {
        self.end.saturating_sub(self.requests_from)
    }

    /// Events handled, the warm-up's included.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }
}
