//! The kernel's counters for idle states.

use crate::{CPUS, StateInfo, System};

/// A CPU's idle state with its counters since boot (`drivers/cpuidle/sysfs.c`).
#[derive(Clone, Debug)]
pub struct StateCount {
    /// The state.
    pub state: StateInfo,
    /// Entries.
    pub usage: u64,
    /// Time in the idle state since boot, in us.
    pub time_us: u64,
    /// Number of idle periods that were too short for the state.
    pub above: u64,
    /// Number of idle periods for which a deeper state would have been right.
    pub below: u64,
    /// Number of entries into the state that hardware or firmware refused.
    pub rejected: u64,
}

/// Entries that may lie between the reading of two files of a state. Assumed: these are read within a second.
const ENTRIES_BETWEEN_READS: u64 = 100_000;

/// Whether so many entries with a property are more than all entries, beyond what reading files one after the other makes of it.
pub(crate) fn is_more_than_entries(some: u64, all: u64) -> bool {
    some > all.saturating_add(ENTRIES_BETWEEN_READS)
}

/// Number of attempts below which an idle state is not judged.
const ENOUGH_ATTEMPTS: u64 = 100;

/// An idle state that is refused most of the time, with counts over all CPUs with the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedState {
    /// Name of the refused idle state.
    pub name: String,
    /// Entries.
    pub usage: u64,
    /// Refused entries.
    pub rejected: u64,
}

impl RefusedState {
    /// Share of the attempted entries that were refused, 0 to 1.
    pub fn refused_share(&self) -> f64 {
        self.rejected as f64 / self.usage.saturating_add(self.rejected).max(1) as f64
    }
}

impl System {
    /// The idle states with at least half of all entries refused. A refused CPU does not sleep, but asks its governor
    /// again.
    pub fn find_mostly_refused_states(&self) -> Vec<RefusedState> {
        let mut all: Vec<RefusedState> = Vec::new();
        for count in self
            .cpus()
            .into_iter()
            .flat_map(|cpu| self.read_idle_counts(cpu))
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

    /// A CPU's idle states with counters, shallowest first. Missing counters are 0.
    pub fn read_idle_counts(&self, cpu: usize) -> Vec<StateCount> {
        let states = self.read_idle_states(cpu).into_iter();
        states
            .map(|state| {
                let path = format!("{CPUS}/cpu{cpu}/cpuidle/state{}", state.index);
                let folder = self.root().folder(path);
                StateCount {
                    usage: folder.read_number_if_readable("usage").unwrap_or(0),
                    time_us: folder.read_number_if_readable("time").unwrap_or(0),
                    above: folder.read_number_if_readable("above").unwrap_or(0),
                    below: folder.read_number_if_readable("below").unwrap_or(0),
                    rejected: folder.read_number_if_readable("rejected").unwrap_or(0),
                    state,
                }
            })
            .collect()
    }
}
