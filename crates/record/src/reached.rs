//! The hardware's counters of idle states that cores and packages reached: perf's `cstate_core` and `cstate_pkg`.

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};
use wakepath_system::Root;
use wakepath_units::cpus;

/// The kernel's names of counters that cores and packages have.
const UNITS: [(&str, bool); 2] = [("cstate_core", false), ("cstate_pkg", true)];

/// Counters of idle states that cores and packages reached; none without root, in most virtual machines, and on processors
/// other than Intel's.
#[derive(Debug, Default)]
pub struct ReachedCounters(Vec<ReachedCounter>);

/// A counter of a core or of a package, beside the time stamp counter of the same CPU.
#[derive(Debug)]
struct ReachedCounter {
    package: bool,
    depth: u32,
    cpu: usize,
    state: Counter,
    clock: Counter,
}

/// What a counter of a core or package says since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachedTicks {
    /// Whether a package was in the state, and not a core.
    pub package: bool,
    /// Number of the state: 6 is C6.
    pub depth: u32,
    /// A CPU of the core or package.
    pub cpu: usize,
    /// Ticks of the time stamp counter in the state.
    pub ticks: u64,
    /// All ticks of the time stamp counter.
    pub all_ticks: u64,
}

impl ReachedCounters {
    /// Opens a counter for each state, on each CPU that the kernel names for it. A captured machine has none, and a counter that
    /// cannot be opened is left out.
    pub fn open(root: &Root) -> Self {
        let mut counters = Vec::new();
        if !root.is_live() {
            return Self(counters);
        }
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
                    Some(ReachedCounter {
                        package,
                        depth,
                        cpu: *cpu,
                        state: open_event_counter(unit, &name, *cpu)?,
                        clock: open_event_counter("msr", "tsc", *cpu)?,
                    })
                }));
            }
        }
        Self(counters)
    }

    /// Reads all counters, in the same order each time; `None`: a counter that cannot be read now.
    pub fn read(&mut self) -> Vec<Option<ReachedTicks>> {
        let counters = self.0.iter_mut();
        counters
            .map(|counter| {
                Some(ReachedTicks {
                    package: counter.package,
                    depth: counter.depth,
                    cpu: counter.cpu,
                    ticks: counter.state.read().ok()?,
                    all_ticks: counter.clock.read().ok()?,
                })
            })
            .collect()
    }
}

impl ReachedTicks {
    /// Whether both are readings of one counter.
    pub fn is_same_counter(&self, other: &Self) -> bool {
        (self.package, self.depth, self.cpu) == (other.package, other.depth, other.cpu)
    }

    /// The ticks since an earlier reading of the same counter.
    #[must_use]
    pub const fn since(self, then: Self) -> Self {
        Self {
            ticks: self.ticks.saturating_sub(then.ticks),
            all_ticks: self.all_ticks.saturating_sub(then.all_ticks),
            ..self
        }
    }
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
    use super::*;

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

    #[test]
    fn a_captured_machine_has_no_counters() {
        let directory = tempfile::tempdir().unwrap();
        let mut counters = ReachedCounters::open(&Root::at_directory(directory.path()));
        assert!(counters.read().is_empty());
    }
}
