//! A run's figures about a server.

use serde::Serialize;

use crate::task::server::disk_steps::DiskTotals;
use crate::task::server::setup::{ArrivalSetup, ServerSetup};
use crate::task::server::state::ServerTotals;

/// Requests that arrived at a server, and those that got their reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerRun {
    /// Name of the server.
    pub name: String,
    /// Requests that arrived after the warm-up.
    pub arrived: u64,
    /// Requests that arrived per second, after the warm-up.
    pub arrived_per_second: f64,
    /// Replies per second, after the warm-up.
    pub replied_per_second: f64,
    /// Requests that got their reply by the end of the counted time; of recorded arrivals, by the last one.
    pub replied_in_time: u64,
    /// Requests for which the full queue had no room: of a server that cannot keep up for long.
    pub refused: u64,
    /// Most requests that waited for a worker at once.
    pub most_waiting: u64,
    /// Requests that waited for a worker when the run ended.
    pub waiting_at_end: u64,
    /// Requests without a reply at the end of the counted time that workers may have had in hand: at most one for each worker.
    pub in_hand_at_end: u64,
    /// Calls to the disk for each reply, after the warm-up; those of logs and background writers are among them.
    pub disk_per_reply: DiskPerReply,
    /// Whether requests arrive whatever the server does, so that it may be unable to keep up.
    pub is_open: bool,
}

/// Calls to the disk for each reply of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DiskPerReply {
    /// Number of reads.
    pub reads: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Number of writes.
    pub writes: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Number of flushes.
    pub flushes: f64,
}

impl DiskPerReply {
    fn new(totals: &DiskTotals, replies: u64) -> Self {
        let [reads, read_bytes, writes, written_bytes, flushes] = [
            totals.reads,
            totals.read_bytes,
            totals.writes,
            totals.written_bytes,
            totals.flushes,
        ]
        .map(|total| total as f64 / replies.max(1) as f64);
        Self {
            reads,
            read_bytes,
            writes,
            written_bytes,
            flushes,
        }
    }
}

impl ServerRun {
    /// Figures of a run whose `replies` were counted.
    pub(crate) fn new(setup: &ServerSetup, totals: &ServerTotals, replies: u64) -> Self {
        let (begin, end) = setup.span_with_counted_requests();
        let seconds = end.saturating_sub(begin) as f64 / 1e9;
        Self {
            name: setup.name.clone(),
            arrived: totals.arrived,
            arrived_per_second: totals.arrived as f64 / seconds.max(1e-9),
            replied_per_second: totals.replied_in_time as f64 / seconds.max(1e-9),
            replied_in_time: totals.replied_in_time,
            refused: totals.refused,
            most_waiting: totals.most_waiting as u64,
            waiting_at_end: totals.waiting as u64,
            in_hand_at_end: (totals.arrived)
                .saturating_sub(totals.replied_in_time)
                .min(setup.workers.into()),
            disk_per_reply: DiskPerReply::new(&totals.disk, replies),
            is_open: !matches!(setup.arrivals, ArrivalSetup::Clients { .. }),
        }
    }

    /// Share of the arrivals that got their reply, 0 to 1: below 1 if the server cannot keep up. It is 1 if workers had all other
    /// requests in hand at the end.
    pub fn kept_up_share(&self) -> f64 {
        let without_reply = self.arrived.saturating_sub(self.replied_in_time);
        if without_reply == self.in_hand_at_end {
            return 1.0;
        }
        self.replied_in_time as f64 / self.arrived as f64
    }
}
