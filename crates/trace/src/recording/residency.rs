//! Idle states over a whole recording: as CPUs asked for them, and as hardware reached them.

use serde::{Deserialize, Serialize};

/// Counters of idle states from the start of a recording to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleResidency {
    /// Time between the two readings, summed over the CPUs that both found, in ns.
    pub cpu_time_ns: u64,
    /// States as CPUs asked for them, by name, shallowest first (`/sys/devices/system/cpu/cpu*/cpuidle`).
    pub requested: Vec<RequestedState>,
    /// States as cores and packages reached them, by hardware's counters; empty where there are none.
    pub reached: Vec<ReachedState>,
}

/// An idle state that CPUs asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedState {
    /// Name of the state.
    pub name: String,
    /// Times that a CPU asked for the state, and was not refused.
    pub entries: u64,
    /// Times that hardware or firmware refused the state.
    pub refused: u64,
    /// Time of CPUs in the state, summed, in ns.
    pub time_ns: u64,
}

/// A hardware state that cores or packages reached, by a counter of theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachedState {
    /// Counts for whole packages, not for cores.
    pub package: bool,
    /// The state's number: 6 for `C6`.
    pub depth: u32,
    /// Ticks of the time stamp counter in the state, summed over all cores or packages.
    pub ticks: u64,
    /// Ticks of the time stamp counter between both readings, summed likewise.
    pub all_ticks: u64,
}

impl IdleResidency {
    /// Adds the counts of a recording's next part.
    pub fn add(&mut self, next: Self) {
        self.cpu_time_ns = self.cpu_time_ns.saturating_add(next.cpu_time_ns);
        for state in next.requested {
            match self.requested.iter_mut().find(|s| s.name == state.name) {
                Some(known) => {
                    known.entries = known.entries.saturating_add(state.entries);
                    known.refused = known.refused.saturating_add(state.refused);
                    known.time_ns = known.time_ns.saturating_add(state.time_ns);
                }
                None => self.requested.push(state),
            }
        }
        for state in next.reached {
            let place = (state.package, state.depth);
            match self
                .reached
                .iter_mut()
                .find(|s| (s.package, s.depth) == place)
            {
                Some(known) => {
                    known.ticks = known.ticks.saturating_add(state.ticks);
                    known.all_ticks = known.all_ticks.saturating_add(state.all_ticks);
                }
                None => self.reached.push(state),
            }
        }
    }
}
