//! Counters of idle states, read when a recording begins and ends: the kernel's count requested states, the
//! hardware's count states reached by cores and packages.

use std::collections::BTreeMap;
use std::time::Instant;

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};
use wakepath_system::counters::StateCount;
use wakepath_system::{Root, System};
use wakepath_trace::recording::{IdleResidency, ReachedState, RequestedState};
use wakepath_units::cpus;

/// Counters of idle states from one moment on.
pub(crate) struct ResidencyMeter {
    system: System,
    hardware: Vec<HardwareCounter>,
    begun: Reading,
}

/// A counter of a core or of a package, beside the time stamp counter of the same CPU.
struct HardwareCounter {
    package: bool,
    depth: u32,
    state: Counter,
    clock: Counter,
}

/// All counters at a moment.
struct Reading {
    taken: Instant,
    cpus: BTreeMap<usize, Vec<StateCount>>,
    /// Ticks in the state, and of the time stamp counter, in the order of the hardware's counters.
    ticks: Vec<Option<[u64; 2]>>,
}

/// The kernel's names of counters that cores and packages have.
const UNITS: [(&str, bool); 2] = [("cstate_core", false), ("cstate_pkg", true)];

impl ResidencyMeter {
    /// Opens the hardware's counters, if the kernel has any, and reads everything for the first time.
    pub(crate) fn start(system: System) -> Self {
        let mut hardware = if system.root().is_live() {
            open_hardware_residency_counters(system.root())
        } else {
            Vec::new()
        };
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
        let ticks = self.begun.ticks.iter().zip(&now.ticks);
        for (counter, (then, now)) in self.hardware.iter().zip(ticks) {
            let (Some(then), Some(now)) = (then, now) else {
                continue;
            };
            residency.add_counts(IdleResidency {
                reached: vec![ReachedState {
                    package: counter.package,
                    depth: counter.depth,
                    ticks: now[0].saturating_sub(then[0]),
                    all_ticks: now[1].saturating_sub(then[1]),
                }],
                ..IdleResidency::default()
            });
        }
        self.begun = now;
        (!residency.requested.is_empty() || !residency.reached.is_empty()).then_some(residency)
    }
}

impl Reading {
    fn read_all_counters(system: &System, hardware: &mut [HardwareCounter]) -> Self {
        let cpus = system.cpus().into_iter();
        let counts = cpus.map(|cpu| (cpu, system.read_idle_counts(cpu)));
        let ticks = hardware.iter_mut().map(|counter| {
            let state = counter.state.read().ok()?;
            Some([state, counter.clock.read().ok()?])
        });
        Self {
            cpus: counts.collect(),
            ticks: ticks.collect(),
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

/// Opens a counter for each state, on each CPU that the kernel names for it. A counter that cannot be opened is left out:
/// without root, in most virtual machines, and on processors other than Intel's there are none.
fn open_hardware_residency_counters(root: &Root) -> Vec<HardwareCounter> {
    let mut counters = Vec::new();
    for (unit, package) in UNITS {
        let folder = format!("sys/bus/event_source/devices/{unit}");
        let mask = root.read_text_if_readable(&format!("{folder}/cpumask"));
        let cpus = mask
            .and_then(|mask| cpus::parse_cpu_list(&mask))
            .unwrap_or_default();
        for name in root.list_names(&format!("{folder}/events")) {
            let Some(depth) = state_number_of_event(&name) else {
                continue;
            };
            counters.extend(cpus.iter().filter_map(|cpu| {
                Some(HardwareCounter {
                    package,
                    depth,
                    state: open_event_counter(unit, &name, *cpu)?,
                    clock: open_event_counter("msr", "tsc", *cpu)?,
                })
            }));
        }
    }
    counters
}

/// The number of the state that an event such as `c6-residency` counts.
fn state_number_of_event(event_name: &str) -> Option<u32> {
    let number = event_name.strip_prefix('c')?.strip_suffix("-residency")?;
    number.parse().ok()
}

fn open_event_counter(unit: &str, event: &str, cpu: usize) -> Option<Counter> {
    let mut described = Dynamic::builder(unit).ok()?;
    described.event(event).ok()?;
    let mut counter = Builder::new(described.build().ok()?)
        .any_pid()
        .one_cpu(cpu)
        // These counters know no rings, and refuse to leave any out.
        .include_kernel()
        .include_hv()
        .build()
        .ok()?;
    counter.enable().ok()?;
    Some(counter)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

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

    #[test]
    fn only_residency_events_name_a_state() {
        for (name, depth) in [
            ("c6-residency", Some(6)),
            ("c10-residency", Some(10)),
            ("c6-residency.unit", None),
            ("tsc", None),
            ("cx-residency", None),
        ] {
            assert_eq!(state_number_of_event(name), depth, "{name}");
        }
    }
}
