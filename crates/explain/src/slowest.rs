//! The slowest requests, by what their interrupts found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::requests::{MetState, TracedRequest};

/// Requests at or above the 99th percentile of their kind's latency, by what their interrupts found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlowestRequests {
    /// How many.
    pub requests: u64,
    /// Number of requests whose interrupt ended an idle state, by index of the state.
    pub met: BTreeMap<u8, u64>,
    /// Number of requests whose interrupt found the CPU running.
    pub awake: u64,
    /// Number of requests whose interrupt came when something else had ended the CPU's idle period.
    pub leaving: u64,
    /// Number of requests that completed behind another request of the same idle period.
    pub behind: u64,
    /// Number of requests for which events are missing.
    pub unknown: u64,
}

impl SlowestRequests {
    /// Counts the requests with at least this latency, in ns.
    pub(crate) fn from_requests(requests: &[&TracedRequest], latency: u64) -> Self {
        let mut slowest = Self::default();
        for request in requests.iter().filter(|r| r.latency >= latency) {
            slowest.requests += 1;
            let count = match request.met {
                MetState::State(state) => slowest.met.entry(state).or_default(),
                MetState::Awake => &mut slowest.awake,
                MetState::Leaving(_) => &mut slowest.leaving,
                MetState::Behind(_) => &mut slowest.behind,
                MetState::Unknown => &mut slowest.unknown,
            };
            *count += 1;
        }
        slowest
    }
}
