//! A run's figures about a server.

use serde::Serialize;

use crate::task::server::setup::{ArrivalSetup, ServerSetup};
use crate::task::server::state::ServerTotals;

/// Requests that arrived at a server, and those that got their reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerRun {
    /// Name of the server.
    pub name: String,
    /// Requests that arrived per second, after the warm-up.
    pub arrived_per_second: f64,
    /// Replies per second, after the warm-up.
    pub replied_per_second: f64,
    /// Requests for which the full queue had no room: of a server that cannot keep up for long.
    pub refused: u64,
    /// Most requests that waited for a worker at once.
    pub most_waiting: u64,
    /// Requests that waited for a worker when the run ended.
    pub waiting_at_end: u64,
    /// Whether requests arrive whatever the server does, so that it may be unable to keep up.
    pub is_open: bool,
}

impl ServerRun {
    /// Figures of a run whose `replies` were counted.
    pub(crate) fn new(setup: &ServerSetup, totals: &ServerTotals, replies: u64) -> Self {
        let (begin, end) = setup.span_with_counted_requests();
        let seconds = end.saturating_sub(begin) as f64 / 1e9;
        Self {
            name: setup.name.clone(),
            arrived_per_second: totals.arrived as f64 / seconds.max(1e-9),
            replied_per_second: replies as f64 / seconds.max(1e-9),
            refused: totals.refused,
            most_waiting: totals.most_waiting as u64,
            waiting_at_end: totals.waiting as u64,
            is_open: !matches!(setup.arrivals, ArrivalSetup::Clients { .. }),
        }
    }

    /// Share of the arrivals that got their reply, 0 to 1: below 1 if the server cannot keep up.
    pub fn replied_share(&self) -> f64 {
        if self.arrived_per_second > 0.0 {
            (self.replied_per_second / self.arrived_per_second).min(1.0)
        } else {
            1.0
        }
    }
}
