//! What the kernel counts of idle states.

use crate::{CPUS, StateInfo, System};

/// An idle state of a CPU with its counters since the start of the machine
/// (`drivers/cpuidle/sysfs.c`).
#[derive(Clone, Debug)]
pub struct StateCount {
    /// The state.
    pub state: StateInfo,
    /// Entries.
    pub usage: u64,
    /// Time in it in us.
    pub time_us: u64,
    /// Idle periods that were too short for it.
    pub above: u64,
    /// Idle periods for which a deeper state would have been right.
    pub below: u64,
    /// Attempts to enter it that the hardware or the firmware refused.
    pub rejected: u64,
}

/// With fewer attempts a state is not judged.
const ENOUGH_ATTEMPTS: u64 = 100;

/// A state that is mostly refused: over all CPUs that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedState {
    /// Its name.
    pub name: String,
    /// Entries.
    pub usage: u64,
    /// Attempts that were refused.
    pub rejected: u64,
}

impl RefusedState {
    /// The share of attempts that were refused.
    pub fn share(&self) -> f64 {
        self.rejected as f64 / self.usage.saturating_add(self.rejected).max(1) as f64
    }
}

impl System {
    /// The states that at least half of all attempts to enter did not reach. A CPU does not sleep then: it asks its governor again.
    pub fn refused_states(&self) -> Vec<RefusedState> {
        let mut all: Vec<RefusedState> = Vec::new();
        for count in self
            .cpus()
            .into_iter()
            .flat_map(|cpu| self.idle_counts(cpu))
        {
            let known = all.iter_mut().find(|state| state.name == count.state.name);
            if let Some(state) = known {
                state.usage = state.usage.saturating_add(count.usage);
                state.rejected = state.rejected.saturating_add(count.rejected);
            } else {
                all.push(RefusedState {
                    name: count.state.name,
                    usage: count.usage,
                    rejected: count.rejected,
                });
            }
        }
        all.retain(|state| state.rejected >= ENOUGH_ATTEMPTS && state.rejected >= state.usage);
        all
    }

    /// The idle states of a CPU with their counters, shallowest first. What the kernel does not show is 0.
    pub fn idle_counts(&self, cpu: usize) -> Vec<StateCount> {
        let states = self.idle_states(cpu).into_iter();
        states
            .map(|state| {
                let directory = format!("{CPUS}/cpu{cpu}/cpuidle/state{}", state.index);
                let file = |name: &str| {
                    let path = format!("{directory}/{name}");
                    self.root().number(&path).unwrap_or(0)
                };
                StateCount {
                    usage: file("usage"),
                    time_us: file("time"),
                    above: file("above"),
                    below: file("below"),
                    rejected: file("rejected"),
                    state,
                }
            })
            .collect()
    }
}
