//! What a CPU did at a time when no idle period that ended there is known.

use wakepath_trace::recording::OpenIdlePeriod;

use crate::requests::NeighbourState;

/// What is known of a CPU from its events, besides its idle periods.
#[derive(Clone, Copy, Default)]
pub(crate) struct CpuActivity {
    /// Since when the CPU is known: its first event, or the entry of its first idle period. `None`: no event yet.
    known_since: Option<u64>,
    /// Time of the CPU's latest event.
    latest: u64,
    /// The idle period that the CPU has entered and not left.
    open: Option<(u64, u8)>,
    /// When the CPU went offline, unless it came back.
    offline_since: Option<u64>,
}

impl CpuActivity {
    /// Notes an event of the CPU, at `time`, which tells what the CPU did since `from`.
    pub(crate) fn note_event(&mut self, from: u64, time: u64) {
        let since = self.known_since.unwrap_or(from);
        self.known_since = Some(since.min(from));
        self.latest = self.latest.max(time);
    }

    /// Notes in which idle period the CPU is; `None`: in none.
    pub(crate) fn set_open_period(&mut self, open: Option<&OpenIdlePeriod>) {
        self.open = open.map(|period| (period.since_ns, period.state));
    }

    /// Forgets the past: events are missing, or the CPU went on- or offline. The open idle period is noted by itself.
    pub(crate) fn restart(&mut self, offline_since: Option<u64>) {
        *self = Self {
            open: self.open,
            offline_since,
            ..Self::default()
        };
    }

    /// Whether anything is known of the CPU at this time.
    pub(crate) fn is_known_at(&self, time: u64) -> bool {
        self.known_since.is_some_and(|since| since <= time)
    }

    /// The CPU's state at a time that lies in no ended idle period. A CPU sleeps only if it was seen to enter a state: one
    /// that runs without ticks has no events either. `entries_are_known`: the open periods of all CPUs are noted.
    pub(crate) fn state_outside_ended_periods(
        &self,
        time: u64,
        entries_are_known: bool,
    ) -> NeighbourState {
        if self.latest > time {
            return if self.is_known_at(time) {
                NeighbourState::Running
            } else {
                NeighbourState::Unknown
            };
        }
        match self.open {
            Some((entry, state)) if entry < time => NeighbourState::Idle(state),
            _ if self.offline_since.is_some_and(|since| since <= time) => {
                NeighbourState::Idle(u8::MAX)
            }
            _ if entries_are_known && self.is_known_at(time) => NeighbourState::Running,
            _ => NeighbourState::Unknown,
        }
    }
}
