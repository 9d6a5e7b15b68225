//! CPUs that differ in a captured machine: two kinds of cores, CPUs that are kept free, and AMD's performance scale.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../cli/tests/all/common/captured.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod captured;
#[path = "../../cli/tests/all/common/files.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod files;

use std::fs;
use std::path::Path;

use wakepath_hardware::Machine;
use wakepath_system::capture::machine::describe_machine;
use wakepath_system::{Root, System};

fn set(root: &Path, path: &str, value: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{value}\n")).unwrap();
}

fn machine(root: &Path) -> Machine {
    let (machine, _) =
        describe_machine(&System::new(Root::at_directory(root)), "captured").unwrap();
    // What a machine file says is read again.
    let text = machine.to_toml().unwrap();
    Machine::parse(&text, "captured.toml").unwrap()
}

#[test]
fn cores_of_two_kinds_become_two_clusters() {
    let laptop = captured::copy_of_laptop();
    let root = laptop.path();
    assert_eq!(machine(root).cluster.len(), 1);
    set(root, "sys/devices/cpu_core/cpus", "0");
    set(root, "sys/devices/cpu_atom/cpus", "1");
    set(
        root,
        "sys/devices/system/cpu/cpufreq/policy1/cpuinfo_max_freq",
        "3400000",
    );
    let hybrid = machine(root);
    let figures_of_cluster = |index: usize| {
        let c = &hybrid.cluster[index];
        (c.cpus, c.capacity, c.max_frequency().0)
    };
    assert_eq!(
        (figures_of_cluster(0).0, figures_of_cluster(0).1),
        (1, 1024)
    );
    assert_eq!(figures_of_cluster(1), (1, 580, 3_400_000));
    set(root, "sys/devices/system/cpu/cpu1/cpu_capacity", "634");
    assert_eq!(machine(root).cluster[1].capacity, 634);
    // Lists that make no sense leave it to the capacities.
    set(root, "sys/devices/cpu_atom/cpus", "7-9");
    assert_eq!(machine(root).cluster.len(), 2);
    set(root, "sys/devices/system/cpu/cpu1/cpu_capacity", "1024");
    assert_eq!(machine(root).cluster.len(), 1);
}

#[test]
fn cores_of_two_capacities_become_two_clusters() {
    let laptop = captured::copy_of_laptop();
    let root = laptop.path();
    let capacity = |cpu: usize, capacity: &str| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
        set(root, &path, capacity);
    };
    // A little core first, as on most Arm boards.
    capacity(0, "446");
    capacity(1, "892");
    let machine = machine(root);
    let core_and_capacity = |index: usize| {
        (
            &*machine.cluster[index].name,
            machine.cluster[index].capacity,
        )
    };
    assert_eq!(
        [core_and_capacity(0), core_and_capacity(1)],
        [("efficiency", 512), ("performance", 1024)]
    );
    assert_eq!(machine.scheduler.home.cluster, "performance");
    // Cores of a kind that the firmware ranks.
    capacity(0, "1009");
    capacity(1, "1024");
    assert_eq!(self::machine(root).cluster.len(), 1);
}

#[test]
fn cpus_of_a_core_type_need_not_be_neighbours() {
    let server = captured::copy_of_server();
    let root = server.path();
    let system = System::new(Root::at_directory(root));
    assert_eq!(system.cpus_by_core_type(), [[0, 1, 2, 3]]);
    for (cpu, capacity) in ["446", "1024", "1009", "446"].into_iter().enumerate() {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
        set(root, &path, capacity);
    }
    assert_eq!(system.cpus_by_core_type(), [[0, 3], [1, 2]]);
    // Intel's lists come first, unless they overlap.
    set(root, "sys/devices/cpu_core/cpus", "0,3");
    set(root, "sys/devices/cpu_atom/cpus", "1");
    set(root, "sys/devices/cpu_lowpower/cpus", "2");
    assert_eq!(system.cpus_by_core_type(), [vec![0, 3], vec![1], vec![2]]);
    set(root, "sys/devices/cpu_atom/cpus", "1-2");
    assert_eq!(system.cpus_by_core_type(), [[0, 1, 2, 3]]);
}

#[test]
fn each_kind_of_core_has_its_own_idle_states() {
    let laptop = captured::copy_of_laptop();
    let root = laptop.path();
    set(root, "sys/devices/cpu_core/cpus", "0");
    set(root, "sys/devices/cpu_atom/cpus", "1");
    let own = |machine: &Machine, cluster: usize| -> Vec<(String, f64, bool)> {
        let states = machine
            .idle_states_on_cluster(&machine.cluster[cluster])
            .into_owned();
        let name_and_latency = |s: wakepath_hardware::machine::MachineIdleState| {
            (s.name, s.exit_latency_us.value, s.disabled)
        };
        states.into_iter().map(name_and_latency).collect()
    };
    let before = machine(root);
    assert_eq!(own(&before, 0), own(&before, 1));
    let states = own(&before, 0);
    let deepest = states.len() - 1;
    let path = |cpu: usize, state: usize, file: &str| {
        format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/{file}")
    };
    set(root, &path(1, deepest, "latency"), "660");
    set(root, &path(1, deepest, "residency"), "1980");
    set(root, &path(1, 1, "disable"), "1");
    let after = machine(root);
    assert_eq!(own(&after, 0), states);
    let (efficiency, was) = (own(&after, 1), states[deepest].1);
    assert!(
        (efficiency[deepest].1 - 660.0).abs() < 1e-9,
        "{efficiency:?}"
    );
    assert!(efficiency[1].2 && !states[1].2);
    let exit = |cluster: usize| {
        let states = after.idle_states_on_cluster(&after.cluster[cluster]);
        states[deepest].true_exit_us.value
    };
    assert!((exit(1) - exit(0) * 660.0 / was).abs() < 1e-6);
    // A state that one kind lacks is not used there; one that the first CPU lacks is told.
    let (_, notes) = describe_machine(&System::new(Root::at_directory(root)), "captured").unwrap();
    assert!(
        !notes.iter().any(|n| n.contains("idle states")),
        "{notes:?}"
    );
    set(root, &path(1, deepest, "name"), "C99");
    let (lacks, notes) =
        describe_machine(&System::new(Root::at_directory(root)), "captured").unwrap();
    assert!(own(&lacks, 1)[deepest].2 && !own(&lacks, 0)[deepest].2);
    assert!(
        notes
            .iter()
            .any(|n| n.contains("only efficiency has the idle state C99")),
        "{notes:?}"
    );
}

#[test]
fn cpus_that_are_kept_free_are_known() {
    let laptop = captured::copy_of_laptop();
    let root = laptop.path();
    assert!(machine(root).isolation.isolates_no_cpu());
    set(root, "sys/devices/system/cpu/isolated", "1");
    set(root, "sys/devices/system/cpu/nohz_full", "(null)");
    set(root, "proc/cmdline", "quiet isolcpus=managed_irq,domain,1");
    let isolation = machine(root).isolation;
    assert_eq!((isolation.isolcpus, isolation.managed_irq), (vec![1], true));
    assert!(isolation.nohz_full.is_empty());
}

#[test]
fn amd_pstate_shows_its_performance_scale() {
    let server = captured::copy_of_server();
    let root = server.path();
    let cppc = machine(root).cluster[0].cppc.clone().unwrap();
    assert_eq!(
        (cppc.lowest, cppc.highest, cppc.nominal_mhz),
        (70, 255, 3200)
    );
    assert!(cppc.registers && cppc.ranking.is_empty());
    for cpu in 0..4 {
        let path =
            format!("sys/devices/system/cpu/cpufreq/policy{cpu}/amd_pstate_prefcore_ranking");
        set(root, &path, &(196 + 10 * cpu).to_string());
    }
    let ranked = machine(root).cluster[0].cppc.clone().unwrap();
    assert_eq!(ranked.ranking, [196, 206, 216, 226]);
    assert!(ranked.preferred_cores);
    set(
        root,
        "sys/devices/system/cpu/amd_pstate/prefcore",
        "disabled",
    );
    let told = machine(root).cluster[0].cppc.clone().unwrap();
    assert!(!told.preferred_cores);
    // An impossible scale is none.
    set(
        root,
        "sys/devices/system/cpu/cpu0/acpi_cppc/nominal_perf",
        "0",
    );
    assert!(machine(root).cluster[0].cppc.is_none());
}
