//! Counters that the kernel keeps: idle states and frequencies, read before and after a run.

use std::collections::BTreeMap;
use std::time::Duration;

use wakepath_results::rows::BUSY;
use wakepath_results::{FrequencyResidency, Idle, RunRecord};
use wakepath_system::{Root, System};

const CPUS: &str = "sys/devices/system/cpu";

/// Values of the kernel's counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Counters of idle states, by CPU kind and state name.
    idle: BTreeMap<KindState, State>,
    /// Names of idle states in the kernel's order.
    states: Vec<String>,
    /// Number of CPUs by CPU kind.
    cpus: BTreeMap<String, u64>,
    /// Time in units of 10 ms, by CPU kind and frequency in kHz, multiplied by the clock's CPUs.
    frequency: BTreeMap<KindFrequency, u64>,
}

/// An idle state on a CPU kind, by their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KindState {
    kind: String,
    state: String,
}

/// A frequency of a CPU kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KindFrequency {
    kind: String,
    khz: u64,
}

/// Counters of an idle state, summed over the CPUs of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    time_us: u64,
    usage: u64,
    above: u64,
    below: u64,
}

/// Name of a CPU's kind: CPUs with equal capacities are of one kind.
pub(super) fn name_cpu_kind(root: &Root, cpu: usize) -> String {
    match root.read_number_if_readable(&format!("{CPUS}/cpu{cpu}/cpu_capacity")) {
        Some(capacity) => format!("capacity {capacity}"),
        None => "cpu".to_owned(),
    }
}

impl Counters {
    pub(super) fn read_all(system: &System) -> Self {
        let root = system.root();
        let mut counters = Self::default();
        for cpu in system.cpus() {
            let kind = name_cpu_kind(root, cpu);
            *counters.cpus.entry(kind.clone()).or_default() += 1;
            for count in system.read_idle_counts(cpu) {
                let name = count.state.name;
                let sum = counters
                    .idle
                    .entry(KindState {
                        kind: kind.clone(),
                        state: name.clone(),
                    })
                    .or_default();
                sum.time_us += count.time_us;
                sum.usage += count.usage;
                sum.above += count.above;
                sum.below += count.below;
                if !counters.states.contains(&name) {
                    counters.states.push(name);
                }
            }
        }
        for policy in system.active_cpufreq_policies() {
            let table = format!("{CPUS}/cpufreq/policy{policy}/stats/time_in_state");
            let cpus = system.online_cpus_of_cpufreq_policy(policy).len() as u64;
            for line in root
                .read_text_if_readable(&table)
                .unwrap_or_default()
                .lines()
            {
                if let Some((khz, time)) = line.split_once(' ')
                    && let (Ok(khz), Ok(time)) = (khz.parse(), time.trim().parse::<u64>())
                {
                    *counters
                        .frequency
                        .entry(KindFrequency {
                            kind: name_cpu_kind(root, policy),
                            khz,
                        })
                        .or_default() += time * cpus;
                }
            }
        }
        counters
    }

    /// Fills `run` with the changes of all counters since `before`.
    pub(super) fn fill_changes_since(&self, before: &Self, took: Duration, run: &mut RunRecord) {
        for (kind, cpus) in &self.cpus {
            let states: Vec<Idle> = self
                .states
                .iter()
                .filter_map(|state| self.idle_counter_changes_since(before, kind, state))
                .collect();
            let idle_ns: u64 = states.iter().map(|idle| idle.time_ns).sum();
            run.idle.extend(states);
            if idle_ns > 0 {
                run.idle.push(Idle {
                    cpu_kind: kind.clone(),
                    state: BUSY.to_owned(),
                    time_ns: (took.as_nanos() as u64 * cpus).saturating_sub(idle_ns),
                    entries: 0,
                    too_deep: 0,
                    too_shallow: 0,
                    above: Some(0),
                    below: Some(0),
                    added_latency_ns: None,
                    wasted_energy_uj: None,
                });
            }
        }
        add_idle_entries_above_below_per_second(took.as_secs_f64(), run);
        for (clock, time) in &self.frequency {
            let old = before.frequency.get(clock).copied().unwrap_or(0);
            let ticks = time.saturating_sub(old);
            if ticks > 0 {
                run.frequency.push(FrequencyResidency {
                    cpu_kind: clock.kind.clone(),
                    khz: clock.khz,
                    time_ns: ticks * 10_000_000,
                });
            }
        }
    }

    /// The changes of a state's counters on a CPU kind since `before`; `None` if the kind has no such state.
    fn idle_counter_changes_since(&self, before: &Self, kind: &str, state: &str) -> Option<Idle> {
        let key = KindState {
            kind: kind.to_owned(),
            state: state.to_owned(),
        };
        let now = self.idle.get(&key)?;
        let old = before.idle.get(&key).copied().unwrap_or_default();
        let too_deep = now.above.saturating_sub(old.above);
        let too_shallow = now.below.saturating_sub(old.below);
        Some(Idle {
            cpu_kind: key.kind,
            state: key.state,
            time_ns: now.time_us.saturating_sub(old.time_us) * 1000,
            entries: now.usage.saturating_sub(old.usage),
            too_deep,
            too_shallow,
            above: Some(too_deep),
            below: Some(too_shallow),
            added_latency_ns: None,
            wasted_energy_uj: None,
        })
    }
}

fn add_idle_entries_above_below_per_second(seconds: f64, run: &mut RunRecord) {
    if run.idle.is_empty() || seconds <= 0.0 {
        return;
    }
    let counts = run.idle.iter().map(|idle| {
        let (above, below) = (idle.above.unwrap_or(0), idle.below.unwrap_or(0));
        [idle.entries, above, below]
    });
    let sums = counts.fold([0; 3], |sums: [u64; 3], counts| {
        [0, 1, 2].map(|index| sums[index] + counts[index])
    });
    for (name, sum) in ["usage_per_s", "above_per_s", "below_per_s"]
        .iter()
        .zip(sums)
    {
        run.metrics.push(((*name).to_owned(), sum as f64 / seconds));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use wakepath_results::RunKey;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn differences_of_counters_become_rows() {
        let temp = tempfile::tempdir().unwrap();
        let state = |cpu: usize, time: u64, usage: u64| {
            let folder = format!("{CPUS}/cpu{cpu}/cpuidle/state0");
            for (name, value) in [
                ("name", "C1".to_owned()),
                ("latency", "2".to_owned()),
                ("residency", "2".to_owned()),
                ("time", time.to_string()),
                ("usage", usage.to_string()),
                ("above", "1".to_owned()),
                ("below", "0".to_owned()),
            ] {
                write(
                    temp.path(),
                    &format!("{folder}/{name}"),
                    &format!("{value}\n"),
                );
            }
        };
        write(temp.path(), &format!("{CPUS}/online"), "0-1\n");
        state(0, 100, 5);
        state(1, 0, 0);
        let system = System::new(Root::at_directory(temp.path()));
        let before = Counters::read_all(&system);
        state(0, 600, 9);
        state(1, 250, 1);
        let key = RunKey {
            machine: String::new(),
            workload: String::new(),
            policy: String::new(),
            repeat: 0,
        };
        let mut run = RunRecord::new(key, None, 0, 0);
        Counters::read_all(&system).fill_changes_since(&before, Duration::from_millis(1), &mut run);
        assert_eq!((run.idle[0].time_ns, run.idle[0].entries), (750_000, 5));
        // The kernel counts idle periods in the wrong state, without their cost.
        for idle in &run.idle {
            assert_eq!((idle.added_latency_ns, idle.wasted_energy_uj), (None, None));
        }
        assert_eq!(run.idle[1].state, BUSY);
        assert_eq!(run.idle[1].time_ns, 1_250_000);
    }
}
