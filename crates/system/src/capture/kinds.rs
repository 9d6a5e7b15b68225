//! Several core types in a processor: clocks, capacities and idle states.

use std::collections::BTreeSet;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{
    Cluster, ClusterIdleState, CoreKind, EFFICIENCY_CAPACITY, EFFICIENCY_CAPACITY_WHY, Figure,
    MachineIdleState,
};
use wakepath_hardware::recorded::RecordedPolicy;
use wakepath_units::{Kilohertz, cpus};

use super::class::MachineClass;
use super::cpufreq::read_recorded_frequency_policy;
use crate::System;
use crate::topology::{CPUS, StateInfo};

/// Perf devices for Intel's hybrid processors, each with a list of CPUs: performance cores and efficiency cores.
/// Other types, such as Arrow Lake-H's low-power cores, have other names.
const INTEL: [&str; 2] = ["cpu_core", "cpu_atom"];
const DEVICES: &str = "sys/devices";
/// Default capacity of a third core type: highest performance 355 of 1024, as recorded on arl-h-1.
const LOW_POWER_CAPACITY: u32 = 355;
const LOW_POWER_CAPACITY_WHY: &str = "a low-power core as on arl-h-1";
/// Neighbours with capacities this close have the same core type.
const SAME_KIND: f64 = 0.9;
/// Arm's small cores.
const SMALL: [&str; 6] = [
    "Cortex-A35",
    "Cortex-A53",
    "Cortex-A55",
    "Cortex-A510",
    "Cortex-A520",
    "Icestorm",
];
/// Performance per MHz of a small Arm core in percent of a big one: `capacity-dmips-mhz` on the RK3399, 485 of 1024
/// (Linux 6.12 arch/arm64/boot/dts/rockchip/rk3399-base.dtsi).
const SMALL_PERCENT: u32 = 47;
const SMALL_CAPACITY_WHY: &str =
    "in proportion to the highest clock, and per MHz 47 % of a big core's, as on the RK3399";
const CLOCK_CAPACITY_WHY: &str = "in proportion to the highest clock";
/// Bus clock: the step between operating points, where unlisted.
const STEP_KHZ: usize = 100_000;

/// Splits a machine's cluster by core type: one cluster for each run of consecutive CPUs of a type.
///
/// `cores`: Arm's by CPU that is online; empty elsewhere.
///
/// # Errors
/// The reason for keeping a single cluster.
pub(super) fn split_cluster_by_core_type(
    system: &System,
    machine: &mut Machine,
    cores: &[String],
) -> Result<(), String> {
    let groups = group_cpus_by_core_type(system, cores);
    if groups.len() < 2 || machine.cluster.len() != 1 {
        return Ok(());
    }
    let online = system.cpus();
    let runs = split_core_types_into_runs_of_neighbours(&groups, &online);
    let together: Vec<usize> = runs.iter().flat_map(|(_, cpus)| cpus).copied().collect();
    if together != online {
        return Err("the lists of their CPUs overlap".to_owned());
    }
    let described = groups.iter().enumerate().map(|(index, cpus)| {
        let core = position_among_online(&online, cpus[0]).and_then(|place| cores.get(place));
        describe_core_kind(system, cpus, index, core)
            .ok_or_else(|| format!("no cpufreq policy of CPU {}", cpus[0]))
    });
    let mut kinds = described.collect::<Result<Vec<CoreKind>, _>>()?;
    // The kernel's capacities are relative to the biggest CPU, which may be offline.
    let most = kinds.iter().map(|kind| kind.capacity).max().unwrap_or(1024);
    for kind in &mut kinds {
        kind.capacity = kind.capacity * 1024 / most;
    }
    let lengths: Vec<_> = runs
        .iter()
        .map(|(kind, cpus)| (*kind, cpus.len()))
        .collect();
    machine
        .split_cluster_by_runs_of_cpus(&kinds, &lengths)
        .map_err(|e| e.to_string())
}

/// Runs of consecutive CPUs of a core type, each with the index of its type. Arrow Lake has clusters of efficiency
/// cores between its performance cores.
fn split_core_types_into_runs_of_neighbours(
    groups: &[Vec<usize>],
    online: &[usize],
) -> Vec<(usize, Vec<usize>)> {
    let mut runs = Vec::new();
    for (kind, group) in groups.iter().enumerate() {
        let split = group.chunk_by(|a, b| {
            position_among_online(online, *a).map(|at| at + 1) == position_among_online(online, *b)
        });
        runs.extend(split.map(|cpus| (kind, cpus.to_vec())));
    }
    runs.sort_by_key(|(_, cpus)| cpus.first().copied());
    runs
}

/// Place of a CPU among those that are online.
fn position_among_online(online: &[usize], cpu: usize) -> Option<usize> {
    online.iter().position(|other| *other == cpu)
}

/// CPUs by core type: from Intel's devices, else by capacity. Without capacity files, Intel's low-power cores are
/// told by lower clocks than their neighbours, Arm's types by name.
fn group_cpus_by_core_type(system: &System, cores: &[String]) -> Vec<Vec<usize>> {
    let online = system.cpus();
    let (groups, is_listed) = split_cpus_by_hybrid_perf_device(system, &online);
    let sizes = CoreSizes {
        system,
        online: &online,
        cores,
        is_listed,
    };
    groups
        .iter()
        .flat_map(|group| group.chunk_by(|a, b| sizes.have_same_core_type(*a, *b)))
        .map(<[usize]>::to_vec)
        .collect()
}

/// CPUs of each of Intel's devices, or all CPUs together; and whether the devices list all CPUs.
fn split_cpus_by_hybrid_perf_device(system: &System, online: &[usize]) -> (Vec<Vec<usize>>, bool) {
    let mut groups = online_cpus_of_hybrid_perf_devices(system);
    // Lists of Intel's devices that leave CPUs out are not used.
    let is_listed = groups.iter().flatten().collect::<BTreeSet<_>>().len() == online.len();
    if !is_listed {
        groups = vec![online.to_vec()];
    }
    groups.retain(|group| !group.is_empty());
    groups.sort();
    (groups, is_listed)
}

/// Arm core names by online CPU, where known.
pub(super) fn list_arm_core_names(system: &System, class: &MachineClass) -> Vec<String> {
    let cores = &class.processor.cores;
    let online = system.cpus();
    // `/proc/cpuinfo` lists online CPUs in sequence.
    if cores.len() == online.len() {
        return cores.iter().map(ToString::to_string).collect();
    }
    match cores.first() {
        Some(core) if cores.iter().all(|other| other == core) => {
            vec![core.to_string(); online.len()]
        }
        _ => Vec::new(),
    }
}

impl System {
    /// Online CPUs by core type, such as performance and efficiency cores. CPUs of a type need not be neighbours. A single
    /// group if the machine does not tell types apart.
    pub fn cpus_by_core_type(&self) -> Vec<Vec<usize>> {
        let online = self.cpus();
        let cores = list_arm_core_names(self, &MachineClass::read(self.root()));
        let (groups, is_listed) = split_cpus_by_hybrid_perf_device(self, &online);
        if groups.iter().map(Vec::len).sum::<usize>() != online.len() {
            // Lists that overlap tell nothing.
            return vec![online];
        }
        let sizes = CoreSizes {
            system: self,
            online: &online,
            cores: &cores,
            is_listed,
        };
        groups
            .iter()
            .flat_map(|group| sizes.split_by_core_type(group))
            .collect()
    }
}

/// What tells the core types of a machine's CPUs apart.
struct CoreSizes<'a> {
    system: &'a System,
    online: &'a [usize],
    /// Names of Arm's core types, by the CPU's place among online CPUs.
    cores: &'a [String],
    /// Whether Intel's devices list all CPUs.
    is_listed: bool,
}

impl CoreSizes<'_> {
    /// CPUs by core type, also where CPUs of another type are between.
    fn split_by_core_type(&self, cpus: &[usize]) -> Vec<Vec<usize>> {
        let mut types: Vec<Vec<usize>> = Vec::new();
        for cpu in cpus {
            let known = types.iter_mut().find(|alike| {
                alike
                    .last()
                    .is_some_and(|last| self.have_same_core_type(*last, *cpu))
            });
            match known {
                Some(alike) => alike.push(*cpu),
                None => types.push(vec![*cpu]),
            }
        }
        types
    }

    /// Whether two CPUs have the same core type.
    fn have_same_core_type(&self, cpu: usize, other_cpu: usize) -> bool {
        let (size, other) = (
            self.capacity_or_highest_clock(cpu),
            self.capacity_or_highest_clock(other_cpu),
        );
        let one_core = read_cpu_capacity(self.system, cpu).is_some()
            || self.arm_core_name(cpu) == self.arm_core_name(other_cpu);
        size.min(other) >= SAME_KIND * size.max(other) && one_core
    }

    /// Size of a CPU's core for comparison: its capacity, or else its highest clock. Clocks within a core type differ
    /// slightly by rank, so they count only where devices list CPUs.
    fn capacity_or_highest_clock(&self, cpu: usize) -> f64 {
        let size = read_cpu_capacity(self.system, cpu).or_else(|| {
            let policy = read_frequency_policy_of_cpu(self.system, cpu).filter(|_| self.is_listed);
            policy.map(|policy| policy.max.0)
        });
        f64::from(size.unwrap_or(1024))
    }

    fn arm_core_name(&self, cpu: usize) -> Option<&String> {
        self.cores.get(position_among_online(self.online, cpu)?)
    }
}

/// Online CPUs for each of Intel's devices; empty with fewer than two devices.
fn online_cpus_of_hybrid_perf_devices(system: &System) -> Vec<Vec<usize>> {
    let root = system.root();
    let names = root.list_names(DEVICES);
    let devices: Vec<&String> = names
        .iter()
        .filter(|name| name.starts_with("cpu_"))
        .collect();
    if INTEL
        .iter()
        .any(|name| !names.iter().any(|there| there == name))
    {
        return Vec::new();
    }
    let online = system.cpus();
    let lists = devices.into_iter().filter_map(|name| {
        let list =
            cpus::parse_cpu_list(&root.read_text_if_readable(&format!("{DEVICES}/{name}/cpus"))?)?;
        Some(
            online
                .iter()
                .copied()
                .filter(|cpu| list.contains(cpu))
                .collect(),
        )
    });
    lists.collect()
}

/// Reads the capacity of a CPU from the kernel.
fn read_cpu_capacity(system: &System, cpu: usize) -> Option<u32> {
    let path = format!("{CPUS}/cpu{cpu}/cpu_capacity");
    let capacity = system.root().read_number_if_readable(&path)?;
    u32::try_from(capacity)
        .ok()
        .filter(|c| (1..=1024).contains(c))
}

/// A CPU's cpufreq policy; the policy's number is its first online CPU.
fn read_frequency_policy_of_cpu(system: &System, cpu: usize) -> Option<RecordedPolicy> {
    let path = format!("{CPUS}/cpu{cpu}/cpufreq/related_cpus");
    let related = system.root().read_text_if_readable(&path);
    let related_cpus = related.as_deref().and_then(cpus::parse_cpu_list);
    let listed = system.active_cpufreq_policies().into_iter();
    let own = listed.filter(|number| system.online_cpus_of_cpufreq_policy(*number).contains(&cpu));
    let mut numbers = related_cpus.into_iter().flatten().chain(own).chain([cpu]);
    numbers.find_map(|number| read_recorded_frequency_policy(system.root(), number))
}

/// Describes the core type of some equal CPUs. `type_index`: position among an Intel processor's types, performance cores
/// first. `arm_core`: name of an Arm core.
fn describe_core_kind(
    system: &System,
    alike: &[usize],
    type_index: usize,
    arm_core: Option<&String>,
) -> Option<CoreKind> {
    let first = *alike.first()?;
    let policy = read_frequency_policy_of_cpu(system, first)?;
    let mhz = policy.max.0 / 1000;
    let (capacity, capacity_why) = match (read_cpu_capacity(system, first), type_index, arm_core) {
        (Some(told), ..) => (told, None),
        (None, _, Some(arm_core)) if SMALL.contains(&arm_core.as_str()) => {
            (mhz * SMALL_PERCENT / 100, Some(SMALL_CAPACITY_WHY))
        }
        (None, _, Some(_)) => (mhz, Some(CLOCK_CAPACITY_WHY)),
        (None, 0, None) => (1024, None),
        (None, 1, None) => (EFFICIENCY_CAPACITY, Some(EFFICIENCY_CAPACITY_WHY)),
        (None, ..) => (LOW_POWER_CAPACITY, Some(LOW_POWER_CAPACITY_WHY)),
    };
    let mut points: BTreeSet<Kilohertz> = if policy.available.is_empty() {
        let range = (policy.min.0..=policy.max.0).step_by(STEP_KHZ);
        range.map(Kilohertz).collect()
    } else {
        policy.available.iter().copied().collect()
    };
    points.insert(policy.max);
    let threads = system.cpus_of_same_core(first).len();
    Some(CoreKind {
        cpus: alike.len(),
        threads_per_core: if alike.len().is_multiple_of(threads) {
            threads
        } else {
            1
        },
        capacity,
        capacity_assumed: capacity_why.map(str::to_owned),
        points: points.into_iter().collect(),
        points_assumed: (policy.available.is_empty())
            .then(|| "the range of cpufreq in steps of 100 MHz".to_owned()),
        base: policy.base,
    })
}

/// Gives each cluster its first CPU's idle states, where different from the machine's. Returns notes about facts that
/// a machine file cannot express.
pub(super) fn set_differing_cluster_idle_states(
    system: &System,
    machine: &mut Machine,
) -> Vec<String> {
    let mut notes = Vec::new();
    let tables = read_states_of_each_clusters_first_cpu(system, machine, &mut notes);
    if tables.iter().all(|table| *table == tables[0]) || tables.iter().any(Vec::is_empty) {
        return notes;
    }
    let mut changed = machine.clone();
    for state in &mut changed.idle_state {
        state.disabled = tables
            .iter()
            .all(|table| find_state_named(table, &state.name).is_none_or(|own| own.disabled));
    }
    for (cluster, table) in changed.cluster.iter_mut().zip(&tables) {
        let unknown = table
            .iter()
            .filter(|s| !machine.idle_state.iter().any(|m| m.name == s.name));
        notes.extend(unknown.map(|state| {
            format!(
                "only {} has the idle state {}, which is left out",
                cluster.name, state.name
            )
        }));
        for state in &changed.idle_state {
            add_or_override_cluster_state(cluster, state, find_state_named(table, &state.name));
        }
    }
    match changed.check() {
        Ok(()) => *machine = changed,
        Err(why) => notes.push(format!(
            "{why}; the machine has the idle states of its first CPU"
        )),
    }
    notes
}

/// Idle states of each cluster's first CPU. Notes clusters whose CPUs differ.
fn read_states_of_each_clusters_first_cpu(
    system: &System,
    machine: &Machine,
    notes: &mut Vec<String>,
) -> Vec<Vec<StateInfo>> {
    let mut cpus = system.cpus().into_iter();
    let mut all_states = Vec::new();
    for cluster in &machine.cluster {
        let tables = cpus.by_ref().take(cluster.cpus);
        let mut tables = tables.map(|cpu| system.read_idle_states(cpu));
        let first = tables.next().unwrap_or_default();
        // Each CPU's states are read, so that the next cluster begins behind the last CPU.
        let differing = tables
            .filter(|other| !declare_same_states(&first, other))
            .count();
        if differing > 0 {
            notes.push(format!(
                "CPUs of {} have different idle states; the machine has those of the first of them",
                cluster.name
            ));
        }
        all_states.push(first);
    }
    all_states
}

/// Gives a cluster its own version of a state of the machine, if the kernel's figures differ there.
fn add_or_override_cluster_state(
    cluster: &mut Cluster,
    state: &MachineIdleState,
    kernel_state: Option<&StateInfo>,
) {
    let known = cluster
        .idle_state
        .iter_mut()
        .find(|own| own.name == state.name);
    if let Some(own) = known {
        override_figures_or_disable(own, state, kernel_state);
        return;
    }
    let source = "wakepath machine capture: cpuidle of its first CPU";
    let mut own = ClusterIdleState::without_overrides(&state.name, source);
    override_figures_or_disable(&mut own, state, kernel_state);
    if own.disabled || own.exit_latency_us.is_given() {
        cluster.idle_state.push(own);
    }
}

fn find_state_named<'a>(table: &'a [StateInfo], state_name: &str) -> Option<&'a StateInfo> {
    table.iter().find(|state| state.name == state_name)
}

/// Whether two CPUs declare the same states.
fn declare_same_states(a: &[StateInfo], b: &[StateInfo]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            a.name == b.name
                && a.latency_us == b.latency_us
                && a.residency_us == b.residency_us
                && a.disabled == b.disabled
        })
}

/// Sets a cluster's figures of a state where the kernel's differ from the machine's.
fn override_figures_or_disable(
    own: &mut ClusterIdleState,
    machine: &MachineIdleState,
    kernel_state: Option<&StateInfo>,
) {
    let Some(kernel_state) = kernel_state else {
        own.disabled = true;
        return;
    };
    own.disabled = kernel_state.disabled && !machine.disabled;
    let (exit, residency) = (
        kernel_state.latency_us as f64,
        kernel_state.residency_us as f64,
    );
    let declared = machine.exit_latency_us.value;
    let differs = [
        (exit, declared),
        (residency, machine.target_residency_us.value),
    ]
    .iter()
    .any(|(own, common)| (own - common).abs() >= 1e-9);
    if !differs {
        return;
    }
    own.exit_latency_us = Figure::covered_by_table_source(exit);
    own.target_residency_us = Figure::covered_by_table_source(residency);
    if machine.true_exit_us.is_given() && declared > 0.0 {
        own.true_exit_us = Figure::assumed(
            machine.true_exit_us.value * exit / declared,
            "as much of what is declared as on the other cores",
        );
    }
}
