//! What a CPU did while its SMT siblings were interrupted by a drive.

use crate::cpu::{Cpu, MAX_PENDING};
use crate::period::Period;
use crate::requests::{NeighbourState, RequestLog};

impl Cpu {
    /// Takes this CPU's state into account for a request that interrupted a sibling at `signal`: at once, or once the idle
    /// period is known.
    pub(crate) fn add_request_of_sibling(
        &mut self,
        request: usize,
        signal: u64,
        requests: &mut RequestLog,
    ) {
        let mut periods = self.periods.iter();
        let slept = periods.find(|period| period.contains_time(signal));
        let known = slept.map(|period| NeighbourState::Idle(period.state));
        if let Some(request) = requests.get_mut(request) {
            request.merge_sibling_state(known.unwrap_or(NeighbourState::Unknown));
        }
        if known.is_some() {
            return;
        }
        self.sibling_requests.push_back((request, signal));
        if self.sibling_requests.len() > MAX_PENDING
            && let Some((oldest, interrupted)) = self.sibling_requests.pop_front()
            && let Some(request) = requests.get_mut(oldest)
        {
            // This CPU may have entered a state since open idle periods were noted.
            let state = self
                .activity
                .state_outside_ended_periods(interrupted, false);
            request.merge_sibling_state(state);
        }
    }

    /// Ends the wait of siblings' requests for an idle period of this CPU.
    pub(crate) fn resolve_requests_of_siblings(
        &mut self,
        period: Period,
        requests: &mut RequestLog,
    ) {
        for (request, signal) in std::mem::take(&mut self.sibling_requests) {
            let state = if period.contains_time(signal) {
                NeighbourState::Idle(period.state)
            } else if self.activity.is_known_at(signal) {
                NeighbourState::Running
            } else {
                NeighbourState::Unknown
            };
            if let Some(request) = requests.get_mut(request) {
                request.merge_sibling_state(state);
            }
        }
    }

    /// Ends the wait of siblings' requests with interrupts up to `until_ns`, though this CPU has ended no idle period since.
    pub(crate) fn settle_requests_of_siblings(
        &mut self,
        until_ns: u64,
        entries_are_known: bool,
        requests: &mut RequestLog,
    ) {
        let activity = self.activity;
        self.sibling_requests.retain(|(request, signal)| {
            if *signal > until_ns {
                return true;
            }
            let state = activity.state_outside_ended_periods(*signal, entries_are_known);
            if let Some(request) = requests.get_mut(*request) {
                request.merge_sibling_state(state);
            }
            false
        });
    }
}
