//! A captured machine has the clocks and the kinds of cores that it has, and its notes name what is missing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use crate::common;
use crate::common::captured::{copy_of_laptop, copy_of_server, planted};
use crate::common::{captured_machine, wakepath};
use wakepath_hardware::Machine;

const CPUS: &str = "sys/devices/system/cpu";

/// The machine of a root, and what was said about it on lines that are joined.
fn captured(root: &Path) -> (Machine, String) {
    let (machine, notes) = captured_machine(root);
    let notes: Vec<&str> = notes.split_whitespace().collect();
    (machine, notes.join(" "))
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The same text for a file of each cpufreq policy; `None` removes it.
fn set_in_policies(root: &Path, file: &str, text: Option<&str>) {
    for policy in fs::read_dir(root.join(CPUS).join("cpufreq")).unwrap() {
        let path = policy.unwrap().path().join(file);
        match text {
            Some(text) => fs::write(path, text).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
}

/// The last operating point of each cluster, in MHz.
fn highest_clocks(machine: &Machine) -> Vec<u32> {
    let clusters = machine.cluster.iter();
    clusters
        .map(|cluster| cluster.opps.last().unwrap().khz / 1000)
        .collect()
}

#[test]
fn a_base_clock_that_cpufreq_does_not_tell_is_in_the_processors_name() {
    let tree = copy_of_laptop();
    set_in_policies(tree.path(), "base_frequency", None);
    let cpuinfo = fs::read_to_string(tree.path().join("proc/cpuinfo")).unwrap();
    let named = cpuinfo.replace("i7-1260P", "i7-1165G7 CPU @ 2.80GHz");
    write(tree.path(), "proc/cpuinfo", &named);
    let (machine, notes) = captured(tree.path());
    assert!((machine.cluster[0].base_mhz.value - 2800.0).abs() < 1e-9);
    assert!(
        machine
            .runs
            .as_deref()
            .unwrap()
            .contains("intel_pstate-hwp"),
        "{notes}"
    );
    assert!(notes.contains("the base clock is 2800 MHz"), "{notes}");
    // Without HWP there is no EPP either.
    set_in_policies(tree.path(), "energy_performance_preference", None);
    let (machine, _) = captured(tree.path());
    assert_eq!(machine.runs.as_deref(), Some("menu + intel_pstate"));
}

#[test]
fn clocks_end_where_the_settings_end_them() {
    let tree = copy_of_laptop();
    let (free, notes) = captured(tree.path());
    assert_eq!(highest_clocks(&free), [4700], "{notes}");
    set_in_policies(tree.path(), "scaling_max_freq", Some("3000000"));
    let (machine, notes) = captured(tree.path());
    assert_eq!(highest_clocks(&machine), [3000], "{notes}");
    assert!(notes.contains("clocks end at 3000 MHz"), "{notes}");
    // A limit leaves the power of each clock as it is.
    let power = |machine: &Machine| {
        let cluster = &machine.cluster[0];
        let opp = cluster.opps.iter().find(|opp| opp.khz == 3_000_000);
        cluster.active_power(opp.unwrap()).0
    };
    assert!(power(&machine).abs_diff(power(&free)) <= 1);
    let percent = format!("{CPUS}/intel_pstate/max_perf_pct");
    write(tree.path(), &percent, "50");
    let (machine, notes) = captured(tree.path());
    assert_eq!(highest_clocks(&machine), [2300], "{notes}");
}

#[test]
fn amd_pstate_runs_where_its_scale_is_not_told() {
    let tree = copy_of_server();
    for cpu in 0..4 {
        fs::remove_dir_all(tree.path().join(format!("{CPUS}/cpu{cpu}/acpi_cppc"))).unwrap();
    }
    let (machine, notes) = captured(tree.path());
    let runs = machine.runs.as_deref().unwrap();
    assert!(runs.contains("amd-pstate[mode=active"), "{runs}");
    assert!(notes.contains("acpi_cppc is not there"), "{notes}");
    let cluster = &machine.cluster[0];
    let cppc = cluster.cppc.as_ref().unwrap();
    let highest = cluster.opps.last().unwrap().khz;
    assert!(
        cppc.frequency_at_performance(cppc.highest)
            .0
            .abs_diff(highest)
            < 3000
    );
    set_in_policies(tree.path(), "scaling_max_freq", Some("1000000"));
    let (_, notes) = captured(tree.path());
    assert!(
        notes.contains("not simulated with amd-pstate"),
        "a limit that is left out is named: {notes}"
    );
    let nominal = (cppc.nominal_mhz * 1000).to_string();
    set_in_policies(tree.path(), "scaling_max_freq", Some(&nominal));
    write(tree.path(), &format!("{CPUS}/cpufreq/boost"), "0");
    let (machine, notes) = captured(tree.path());
    assert!(machine.runs.as_deref().unwrap().contains("boost=off"));
    assert!(!notes.contains("clocks are limited"), "{notes}");
}

#[test]
fn a_guest_without_states_lacks_what_bare_metal_demotes() {
    let tree = planted("guest-haltpoll");
    fs::remove_dir_all(tree.path().join(CPUS).join("cpuidle")).unwrap();
    for cpu in 0..2 {
        let states = tree.path().join(format!("{CPUS}/cpu{cpu}/cpuidle"));
        fs::remove_dir_all(states).unwrap();
    }
    let cpuinfo = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 79\nmodel name : Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz\ncpu MHz : 2300.000\nflags : fpu tsc hypervisor\n\n";
    write(tree.path(), "proc/cpuinfo", cpuinfo);
    let (machine, notes) = captured(tree.path());
    assert!(machine.c1_demotion.is_none() && !machine.has_cpu_or_package_power());
    assert!(notes.contains("intel-tbench-80t"), "{notes}");
}

#[test]
fn low_power_cores_among_the_efficiency_cores_are_known_by_their_clocks() {
    let tree = planted("three-kinds");
    // Meteor Lake lists all of its small cores as one device, and kernels before 6.12 tell no capacities.
    fs::remove_dir_all(tree.path().join("sys/devices/cpu_lowpower")).unwrap();
    write(tree.path(), "sys/devices/cpu_atom/cpus", "2-5");
    for cpu in 0..6 {
        fs::remove_file(tree.path().join(format!("{CPUS}/cpu{cpu}/cpu_capacity"))).unwrap();
    }
    let (machine, notes) = captured(tree.path());
    let kinds = machine.cluster.iter().map(|c| (c.name.as_str(), c.cpus));
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(
        kinds,
        [("performance", 2), ("efficiency", 2), ("low-power", 2)],
        "{notes}"
    );
}

#[test]
fn arm_cores_of_two_names_are_two_kinds_also_without_capacities() {
    let tree = planted("arm-board");
    let cpuinfo = fs::read_to_string(tree.path().join("proc/cpuinfo")).unwrap();
    let (little, big) = cpuinfo.split_once("\n\n").unwrap();
    let big = big.replace("0xd03", "0xd08");
    write(tree.path(), "proc/cpuinfo", &format!("{little}\n\n{big}"));
    for (cpu, khz) in [(0, "1416000"), (1, "1800000")] {
        let policy = format!("{CPUS}/cpufreq/policy{cpu}");
        let files = [
            ("affected_cpus", cpu.to_string()),
            ("cpuinfo_min_freq", "408000".to_owned()),
            ("cpuinfo_max_freq", khz.to_owned()),
            ("scaling_driver", "cpufreq-dt".to_owned()),
            ("scaling_governor", "schedutil".to_owned()),
        ];
        for (file, text) in files {
            write(tree.path(), &format!("{policy}/{file}"), &text);
        }
    }
    let (machine, notes) = captured(tree.path());
    let cores = machine.cluster.iter().map(|c| c.core.as_str());
    assert_eq!(
        cores.collect::<Vec<_>>(),
        ["Cortex-A53", "Cortex-A72"],
        "{notes}"
    );
    // The kernel gives 381 to an RK3399's.
    let small = machine.cluster[0].capacity;
    assert!((360..400).contains(&small), "{small}");
    assert_eq!(highest_clocks(&machine), [1416, 1800]);
}

#[test]
fn a_drive_that_cannot_be_identified_is_named_once_with_what_stands_in() {
    let tree = copy_of_laptop();
    fs::remove_file(tree.path().join("dev/nvme0.id-ctrl")).unwrap();
    let root = tree.path().to_str().unwrap();
    let assert = wakepath(&["doctor", "--format", "json", "--root", root]).success();
    let notes = common::json(&assert)["notes"].to_string();
    assert_eq!(
        notes.matches("nvme0 cannot be identified").count(),
        1,
        "{notes}"
    );
    for part in ["there is no dev/nvme0.id-ctrl", "a typical drive stands in"] {
        assert!(notes.contains(part), "{notes}");
    }
    assert!(!notes.contains("os error"), "{notes}");
}

#[test]
fn states_that_are_entered_now_and_then_are_not_always_refused() {
    let tree = planted("refused-states");
    for cpu in 0..2 {
        for state in 1..3 {
            let state = format!("{CPUS}/cpu{cpu}/cpuidle/state{state}");
            write(tree.path(), &format!("{state}/usage"), "3");
            write(tree.path(), &format!("{state}/rejected"), "90000");
        }
    }
    let (_, notes) = captured(tree.path());
    assert!(
        notes.contains("(99 %)") && !notes.contains("(100 %)"),
        "{notes}"
    );
}
