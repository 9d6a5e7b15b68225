//! How long CPUs took to leave their idle states in a recording.

use std::collections::HashMap;

use super::idle_spans::IdleSpans;
use crate::recording::Metadata;

/// Fewest timers that ended idle periods in a state, for their lateness to count as the state's exit latency.
const FEWEST_TIMERS: usize = 8;

/// Exit latencies by CPU and state.
#[derive(Debug, Default)]
pub(super) struct ExitLatencies {
    /// Times in ns by group of CPUs and state.
    groups: Vec<Vec<u64>>,
    group_of_cpu: HashMap<u32, usize>,
}

impl ExitLatencies {
    /// The kernel's tables have upper limits of exit latencies. Timers show what CPUs took: an idle period that a timer ends lasts until
    /// its state is left. The limit counts where a state has too few timers.
    pub(super) fn new(metadata: &Metadata, idle: &IdleSpans) -> Self {
        let mut latencies = Self::default();
        for (number, group) in metadata.idle_states.iter().enumerate() {
            let mut late: Vec<Vec<u64>> = vec![Vec::new(); group.states.len()];
            for cpu in &group.cpus {
                latencies.group_of_cpu.insert(*cpu, number);
                for span in idle.spans_of_cpu(*cpu) {
                    let expiry = span.next_timer.filter(|told| *told >= span.start);
                    let lateness = expiry.and_then(|told| span.end.checked_sub(told));
                    if let Some(times) = late.get_mut(usize::from(span.state)) {
                        times.extend(lateness);
                    }
                }
            }
            let states = group.states.iter().zip(late);
            let exits =
                states.map(|(state, times)| median_exit(times).unwrap_or(state.exit_latency.0));
            latencies.groups.push(exits.collect());
        }
        latencies
    }

    /// Time in ns that a CPU takes to leave a state; 0 if nothing is known of the state.
    pub(super) fn exit_latency(&self, cpu: u32, state: u8) -> u64 {
        let group = self.group_of_cpu.get(&cpu);
        let exits = group.and_then(|group| self.groups.get(*group));
        let exit = exits.and_then(|exits| exits.get(usize::from(state)));
        exit.copied().unwrap_or(0)
    }
}

/// The median lateness in ns; `None`: too few timers.
fn median_exit(mut late: Vec<u64>) -> Option<u64> {
    late.sort_unstable();
    let middle = late.get(late.len() / 2).copied();
    middle.filter(|_| late.len() >= FEWEST_TIMERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_enough_timers_is_the_exit() {
        let late = vec![40, 41, 42, 43, 44, 45, 46, 9_000];
        assert_eq!(median_exit(late.clone()), Some(44));
        assert_eq!(median_exit(late[1..].to_vec()), None);
    }
}
