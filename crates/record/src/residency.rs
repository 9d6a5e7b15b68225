//! Counters of idle states, read when a recording begins and ends: the kernel's count requested states, the
//! hardware's count states reached by cores and packages.

use std::collections::BTreeMap;
use std::time::Instant;

use wakepath_system::System;
use wakepath_system::counters::StateCount;
use wakepath_trace::recording::{IdleResidency, ReachedState, RequestedState};

use crate::reached::{ReachedCounters, ReachedTicks};

/// Counters of idle states from one moment on.
pub(crate) struct ResidencyMeter {
    system: System,
    hardware: ReachedCounters,
    begun: Reading,
}

/// All counters at a moment.
struct Reading {
    taken: Instant,
    cpus: BTreeMap<usize, Vec<StateCount>>,
    /// In the order of the hardware's counters.
    reached: Vec<Option<ReachedTicks>>,
}

impl ResidencyMeter {
    /// Opens the hardware's counters, if the kernel has any, and reads everything for the first time.
    pub(crate) fn start(system: System) -> Self {
        let mut hardware = ReachedCounters::open(system.root());
        let begun = Reading::read_all_counters(&system, &mut hardware);
        Self {
            system,
            hardware,
            begun,
        }
    }

    /// What was counted since the start or the last call; `None` on a machine without idle states.
    pub(crate) fn take_since_last_call(&mut self) -> Option<IdleResidency> {
        let now = Reading::read_all_counters(&self.system, &mut self.hardware);
        let elapsed = now.taken.duration_since(self.begun.taken).as_nanos();
        let elapsed_ns = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let mut residency = requested_residency_between(&self.begun.cpus, &now.cpus, elapsed_ns);
        for (then, now) in self.begun.reached.iter().zip(&now.reached) {
            let (Some(then), Some(now)) = (then, now) else {
                continue;
            };
            let reached = now.since(*then);
            residency.add_counts(IdleResidency {
                reached: vec![ReachedState {
                    package: reached.package,
                    depth: reached.depth,
                    ticks: reached.ticks,
                    all_ticks: reached.all_ticks,
                }],
                ..IdleResidency::default()
            });
        }
        self.begun = now;
        (!residency.requested.is_empty() || !residency.reached.is_empty()).then_some(residency)
    }
}

impl Reading {
    fn read_all_counters(system: &System, hardware: &mut ReachedCounters) -> Self {
        let cpus = system.cpus().into_iter();
        let counts = cpus.map(|cpu| (cpu, system.read_idle_counts(cpu)));
        Self {
            cpus: counts.collect(),
            reached: hardware.read(),
            taken: Instant::now(),
        }
    }
}

/// Idle states that CPUs requested between two readings. A CPU that was offline at either reading is left out.
fn requested_residency_between(
    before: &BTreeMap<usize, Vec<StateCount>>,
    after: &BTreeMap<usize, Vec<StateCount>>,
    elapsed_ns: u64,
) -> IdleResidency {
    let mut residency = IdleResidency::default();
    for (cpu, states) in after {
        let Some(earlier) = before.get(cpu).filter(|earlier| {
            let same = earlier.iter().zip(states);
            !states.is_empty()
                && earlier.len() == states.len()
                && same.into_iter().all(|(then, now)| now.usage >= then.usage)
        }) else {
            continue;
        };
        let requested = earlier
            .iter()
            .zip(states)
            .map(|(then, now)| RequestedState {
                name: now.state.name.clone(),
                entries: now.usage - then.usage,
                refused: now.rejected.saturating_sub(then.rejected),
                time_ns: now
                    .time_us
                    .saturating_sub(then.time_us)
                    .saturating_mul(1_000),
            });
        residency.add_counts(IdleResidency {
            cpu_time_ns: elapsed_ns,
            requested: requested.collect(),
            reached: Vec::new(),
        });
    }
    residency
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use wakepath_system::Root;

    use super::*;

    const CPUIDLE: &str = "sys/devices/system/cpu";

    /// Writes `usage`, `time` in us and `rejected` of a CPU's two states.
    fn write_counts(root: &Path, cpu: usize, counts: [[u64; 3]; 2]) {
        for (index, (name, counts)) in ["C1", "C6"].into_iter().zip(counts).enumerate() {
            let folder = root.join(format!("{CPUIDLE}/cpu{cpu}/cpuidle/state{index}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("name"), name).unwrap();
            for (file, value) in ["latency", "residency"].into_iter().zip([1, 2]) {
                fs::write(folder.join(file), format!("{value}\n")).unwrap();
            }
            for (file, value) in ["usage", "time", "rejected"].into_iter().zip(counts) {
                fs::write(folder.join(file), format!("{value}\n")).unwrap();
            }
        }
    }

    fn write_online(root: &Path, cpus: &str) {
        fs::create_dir_all(root.join(CPUIDLE)).unwrap();
        fs::write(root.join(CPUIDLE).join("online"), cpus).unwrap();
    }

    #[test]
    fn what_cpus_asked_for_adds_up_over_those_that_stayed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write_online(root, "0-2\n");
        for cpu in 0..3 {
            write_counts(root, cpu, [[10, 1_000, 0], [5, 9_000, 1]]);
        }
        let mut meter = ResidencyMeter::start(System::new(Root::at_directory(root)));
        write_counts(root, 0, [[13, 1_400, 0], [6, 9_100, 3]]);
        // Its counters went back: the CPU came anew.
        write_counts(root, 1, [[2, 10, 0], [9, 9_900, 1]]);
        write_online(root, "0-1\n");
        let found = meter.take_since_last_call().unwrap();
        let rows: Vec<_> = found
            .requested
            .iter()
            .map(|state| {
                (
                    state.name.as_str(),
                    state.entries,
                    state.refused,
                    state.time_ns,
                )
            })
            .collect();
        assert_eq!(rows, [("C1", 3, 0, 400_000), ("C6", 1, 2, 100_000)]);
        assert!(found.cpu_time_ns > 0 && found.reached.is_empty());

        // The next interval begins where the last one ended.
        write_counts(root, 0, [[14, 1_500, 0], [6, 9_100, 3]]);
        let next = meter.take_since_last_call().unwrap();
        assert_eq!(
            (next.requested[0].entries, next.requested[1].entries),
            (1, 0)
        );
    }

    #[test]
    fn a_machine_without_idle_states_has_no_residency() {
        let directory = tempfile::tempdir().unwrap();
        let mut meter = ResidencyMeter::start(System::new(Root::at_directory(directory.path())));
        assert_eq!(meter.take_since_last_call(), None);
        // Not even files are missing: only numbers are.
        write_online(directory.path(), "0\n");
        fs::create_dir_all(directory.path().join(CPUIDLE).join("cpu0/cpuidle/state0")).unwrap();
        assert!(
            meter
                .take_since_last_call()
                .is_none_or(|found| found.requested.len() <= 1)
        );
    }
}
