//! CPUs that differ in a captured machine: two kinds of cores, CPUs that are kept free, and AMD's performance scale.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../cli/tests/common/captured.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod captured;

use std::fs;
use std::path::Path;

use wakepath_hardware::Machine;
use wakepath_system::capture::machine::describe;
use wakepath_system::{Root, System};

fn set(root: &Path, path: &str, value: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{value}\n")).unwrap();
}

fn machine(root: &Path) -> Machine {
    let (machine, _) = describe(&System::new(Root::at(root)), "captured").unwrap();
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
    let of = |index: usize| {
        let c = &hybrid.cluster[index];
        (c.cpus, c.capacity, c.max_frequency().0)
    };
    assert_eq!((of(0).0, of(0).1), (1, 1024));
    assert_eq!(of(1), (1, 580, 3_400_000));
    set(root, "sys/devices/system/cpu/cpu1/cpu_capacity", "634");
    assert_eq!(machine(root).cluster[1].capacity, 634);
    // Lists that make no sense leave one kind.
    set(root, "sys/devices/cpu_atom/cpus", "7-9");
    assert_eq!(machine(root).cluster.len(), 1);
}

#[test]
fn cpus_that_are_kept_free_are_known() {
    let laptop = captured::copy_of_laptop();
    let root = laptop.path();
    assert!(machine(root).isolation.is_none());
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
    // An impossible scale is none.
    set(
        root,
        "sys/devices/system/cpu/cpu0/acpi_cppc/nominal_perf",
        "0",
    );
    assert!(machine(root).cluster[0].cppc.is_none());
}
