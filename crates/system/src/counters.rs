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
}

impl System {
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
                    state,
                }
            })
            .collect()
    }
}
