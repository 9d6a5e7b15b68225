//! A captured machine gets figures of its own class, or none.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use crate::common::captured::{laptop, planted};
use crate::common::{captured_machine, json, wakepath};
use serde_json::Value;
use wakepath_hardware::Machine;

const JOB: &str = "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nruntime=1s\ntime_based\nrate_iops=6\n";

/// What a simulation of this machine says.
fn simulated(root: &Path) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (machine, _) = captured_machine(root);
    fs::write(path("machine.toml"), machine.to_toml().unwrap()).unwrap();
    fs::write(path("job.fio"), JOB).unwrap();
    let arguments = [
        "sim",
        &path("job.fio"),
        "--machine",
        &path("machine.toml"),
        "--runs",
        "1",
    ];
    let assert = wakepath(&[&arguments[..], &["--format", "json"]].concat()).success();
    let notes = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    (json(&assert), notes)
}

fn doctor(root: &Path) -> Value {
    json(
        &wakepath(&[
            "doctor",
            "--format",
            "json",
            "--root",
            root.to_str().unwrap(),
        ])
        .success(),
    )
}

fn says_watts(report: &Value) -> bool {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .any(|finding| !finding["costs_mw"].is_null())
}

#[test]
fn a_ryzen_laptop_draws_what_a_ryzen_laptop_does() {
    let tree = planted("ryzen-laptop");
    let (machine, notes) = captured_machine(tree.path());
    assert!(
        notes.contains("figures as on ryzen-8840u: AMD family 25"),
        "{notes}"
    );
    let package = machine.package.as_ref().unwrap();
    assert!(package.idle_mw.value < 5000.0, "{package:?}");
    // That machine's own file takes some figures from a server's core, but none of its package.
    for entry in machine.figures() {
        let (key, text) = (&entry.key, format!("{:?}", entry.figure.origin));
        assert!(!text.contains("(\"as on epyc"), "{key}: {text}");
        assert!(
            !key.starts_with("package") || !text.contains("epyc"),
            "{key}: {text}"
        );
    }
    let (result, _) = simulated(tree.path());
    let mw = result["results"][0]["mean_mw"].as_f64().unwrap();
    assert!(mw < 5000.0, "{mw}");
}

#[test]
fn an_arm_board_has_its_core_and_the_figures_of_a_board_with_it() {
    let tree = planted("arm-board");
    let (machine, notes) = captured_machine(tree.path());
    assert!(
        notes.contains("figures as on rk3399: Cortex-A53, board"),
        "{notes}"
    );
    let cluster = &machine.cluster[0];
    assert_eq!(cluster.core, "Cortex-A53");
    assert!(cluster.static_mw.value < 100.0 && cluster.clock_slot_us.value < 1e-9);
    assert!((cluster.dynamic_power_uw_per_mhz_v2.value - 100.0).abs() < 1e-9);
    let text = machine.to_toml().unwrap();
    assert!(
        !text.contains("Intel") && !text.contains("as on laptop"),
        "{text}"
    );
}

#[test]
fn cores_of_a_third_kind_are_a_cluster_of_their_own() {
    let (machine, notes) = captured_machine(planted("three-kinds").path());
    let kinds: Vec<_> = machine
        .cluster
        .iter()
        .map(|c| (c.cpus, c.capacity))
        .collect();
    assert_eq!(kinds, [(2, 1024), (2, 720), (2, 430)], "{notes}");
    let names: Vec<_> = machine.cluster.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["performance", "efficiency", "low-power"]);
}

/// Of each cluster the capacity and the reason for assuming it.
fn capacities(machine: &Machine) -> Vec<(u32, Option<&str>)> {
    let clusters = machine.cluster.iter();
    clusters
        .map(|c| (c.capacity, c.capacity_assumed.as_deref()))
        .collect()
}

#[test]
fn capacities_that_no_kernel_tells_are_assumed() {
    let tree = planted("three-kinds");
    assert!(
        capacities(&captured_machine(tree.path()).0)
            .iter()
            .all(|(_, why)| why.is_none())
    );
    for cpu in 0..6 {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
        fs::remove_file(tree.path().join(file)).unwrap();
    }
    let (machine, _) = captured_machine(tree.path());
    let found = capacities(&machine);
    assert_eq!(found[0], (1024, None));
    for (capacity, why) in &found[1..] {
        assert!(why.is_some(), "{capacity}");
    }
    let text = machine.to_toml().unwrap();
    assert!(
        text.contains("capacity_assumed = \"an efficiency core as on adl0"),
        "{text}"
    );
    assert_eq!(capacities(&Machine::parse(&text, "again").unwrap()), found);
}

#[test]
fn a_machine_that_polls_by_its_command_line_never_halts() {
    let tree = planted("ryzen-laptop");
    let polls = |words: &str| {
        fs::write(tree.path().join("proc/cmdline"), words).unwrap();
        let (machine, notes) = captured_machine(tree.path());
        let states: Vec<String> = machine.idle_state.iter().map(|s| s.name.clone()).collect();
        assert_eq!(
            machine.idle_state.iter().all(|s| s.polling),
            states == ["POLL"]
        );
        assert_eq!(notes.contains("`idle=poll`"), states == ["POLL"], "{notes}");
        states == ["POLL"]
    };
    for (words, expected) in [
        ("quiet idle=poll\n", true),
        ("idle=nomwait\n", false),
        // No parameter of x86.
        ("nohlt\n", false),
    ] {
        assert_eq!(polls(words), expected, "{words}");
    }
    polls("idle=poll\n");
    let (result, _) = simulated(tree.path());
    let polling = result["results"][0]["mean_mw"].as_f64().unwrap();
    polls("\n");
    let (result, _) = simulated(tree.path());
    assert!(polling > 2.0 * result["results"][0]["mean_mw"].as_f64().unwrap());
}

#[test]
fn cores_of_a_kind_need_not_follow_each_other() {
    let tree = planted("three-kinds");
    let write = |path: &str, content: &str| {
        fs::write(tree.path().join("sys/devices").join(path), content).unwrap();
    };
    write("cpu_core/cpus", "0,3\n");
    write("cpu_atom/cpus", "1-2\n");
    for cpu in 0..6 {
        let (highest, capacity) = match cpu {
            0 | 3 => (5_100_000, 1024),
            1 | 2 => (4_400_000, 720),
            _ => (2_500_000, 430),
        };
        write(
            &format!("system/cpu/cpu{cpu}/cpu_capacity"),
            &format!("{capacity}\n"),
        );
        let clock = format!("system/cpu/cpufreq/policy{cpu}");
        write(
            &format!("{clock}/cpuinfo_max_freq"),
            &format!("{highest}\n"),
        );
        write(
            &format!("{clock}/scaling_max_freq"),
            &format!("{highest}\n"),
        );
    }
    let (machine, notes) = captured_machine(tree.path());
    let runs = machine
        .cluster
        .iter()
        .map(|c| (c.name.as_str(), c.cpus, c.capacity));
    let runs: Vec<_> = runs.collect();
    let expected = [
        ("performance", 1, 1024),
        ("efficiency", 2, 720),
        ("performance-2", 1, 1024),
        ("low-power", 2, 430),
    ];
    assert_eq!(runs, expected, "{notes}");
    simulated(tree.path());
}

#[test]
fn a_guest_has_latency_and_no_watts() {
    let tree = planted("guest-haltpoll");
    let (machine, notes) = captured_machine(tree.path());
    assert!(!machine.has_cpu_or_package_power() && machine.power_limit.is_none());
    assert!(
        notes.contains("a virtual machine") && notes.contains("not known until measured"),
        "{notes}"
    );
    assert_eq!(
        machine.runs.as_deref(),
        Some("haltpoll[guest_halt_poll_ns=0]")
    );
    let (result, notes) = simulated(tree.path());
    let first = &result["results"][0];
    assert!(first["mean_us"].as_f64().unwrap() > 0.0);
    assert!(
        first["mean_mw"].is_null() && first["runs"][0]["energy"].is_null(),
        "{first}"
    );
    assert!(
        notes.contains("the exit time of haltpoll idle is not known until measured"),
        "{notes}"
    );
    let report = doctor(tree.path());
    assert!(!says_watts(&report), "{report}");
    let found = report["findings"].as_array().unwrap().iter();
    let off = found.clone().find(|f| f["name"] == "haltpoll-off").unwrap();
    assert!(off["costs_us_per_io"].is_null(), "{off}");
}

#[test]
fn a_guest_with_states_of_its_own_keeps_them() {
    let tree = planted("guest-mwait");
    let (machine, notes) = captured_machine(tree.path());
    let exits: Vec<_> = machine
        .idle_state
        .iter()
        .map(|s| s.true_exit_us.value)
        .collect();
    assert!(
        exits[3] > 40.0 && !notes.contains("not known until measured"),
        "{notes}"
    );
    assert!(!machine.has_cpu_or_package_power());
    assert!(!says_watts(&doctor(tree.path())));
}

#[test]
fn a_machine_of_a_cloud_that_is_no_guest_has_watts() {
    let tree = planted("guest-mwait");
    let cpuinfo = tree.path().join("proc/cpuinfo");
    let text = fs::read_to_string(&cpuinfo)
        .unwrap()
        .replace(" hypervisor", "");
    fs::write(cpuinfo, text).unwrap();
    fs::write(
        tree.path().join("sys/class/dmi/id/product_name"),
        "m6i.metal\n",
    )
    .unwrap();
    let (machine, notes) = captured_machine(tree.path());
    assert!(machine.has_cpu_or_package_power(), "{notes}");
}

#[test]
fn power_and_risc_v_are_named_and_have_no_watts() {
    for (tree, name, polls) in [
        (
            "power-lpar",
            "POWER10 (architected), altivec supported",
            true,
        ),
        ("riscv-board", "sifive,u74-mc", false),
    ] {
        let root = planted(tree);
        let (machine, notes) = captured_machine(root.path());
        assert_eq!(machine.cluster[0].core, name);
        assert_eq!(machine.idle_state[0].polling, polls, "{tree}");
        assert!(notes.contains("no power figures"), "{notes}");
        assert!(simulated(root.path()).0["results"][0]["mean_mw"].is_null());
        assert!(!says_watts(&doctor(root.path())));
    }
}

#[test]
fn the_governor_is_known_from_the_file_that_nobody_can_write() {
    let tree = planted("governor-read-only");
    let root = tree.path().to_str().unwrap();
    let status = json(&wakepath(&["status", "--format", "json", "--root", root]).success());
    assert_eq!(status["governor"], "teo (psci_idle)");
    let (machine, _) = captured_machine(tree.path());
    assert!(machine.runs.as_deref().unwrap().starts_with("teo"));
}

#[test]
fn a_kernel_without_residencies_has_its_states_all_the_same() {
    let tree = planted("no-residency");
    let root = tree.path().to_str().unwrap();
    let status = json(&wakepath(&["status", "--format", "json", "--root", root]).success());
    let names = status["cpus"][0]["states"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|state| state["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["WFI", "cpu-sleep"]);
    let (machine, notes) = captured_machine(tree.path());
    assert!(
        notes.contains("this kernel tells none") && !notes.contains("no cpuidle driver"),
        "{notes}"
    );
    let sleep = &machine.idle_state[1];
    assert!((sleep.exit_latency_us.value - 370.0).abs() < 1e-9);
    let origin = format!("{:?}", sleep.target_residency_us.origin);
    assert!(origin.contains("Assumed"), "{origin}");
    let report = doctor(tree.path()).to_string();
    assert!(!report.contains("no cpuidle driver"), "{report}");
}

#[test]
fn drivers_that_do_not_tell_everything_are_captured_and_simulated() {
    // sysfs as people send it: no base_frequency, no acpi_cppc.
    let hwp = [("energy_performance_preference", "balance_performance")];
    let passive = [
        ("affected_cpus", "0 1 2 3"),
        ("related_cpus", "0 1 2 3"),
        ("cpuinfo_min_freq", "1500000"),
        ("cpuinfo_max_freq", "3700000"),
        ("scaling_min_freq", "1500000"),
        ("scaling_max_freq", "3700000"),
        ("scaling_driver", "amd-pstate"),
        ("scaling_governor", "schedutil"),
    ];
    for (tree, files, expected) in [
        ("three-kinds", &hwp[..], "menu + schedutil"),
        (
            "ryzen-laptop",
            &passive,
            "menu + amd-pstate[mode=passive,governor=schedutil]",
        ),
    ] {
        let tree = planted(tree);
        let policy = tree.path().join("sys/devices/system/cpu/cpufreq/policy0");
        fs::create_dir_all(&policy).unwrap();
        for (name, content) in files {
            fs::write(policy.join(name), format!("{content}\n")).unwrap();
        }
        let (machine, _) = captured_machine(tree.path());
        assert_eq!(machine.runs.as_deref(), Some(expected));
        let (result, _) = simulated(tree.path());
        assert!(!result["results"].is_null(), "{expected}");
    }
}

#[test]
fn a_kernel_older_than_all_that_are_known_is_simulated_as_the_nearest() {
    let tree = planted("ryzen-laptop");
    for (release, nearest) in [
        ("4.18.0-513.el8.x86_64", "6.1.0"),
        ("5.7.0", "6.1.0"),
        ("8.0.1", "7.3"),
    ] {
        fs::write(tree.path().join("proc/sys/kernel/osrelease"), release).unwrap();
        let (machine, notes) = captured_machine(tree.path());
        assert_eq!(machine.kernel.unwrap().to_string(), nearest);
        assert!(notes.contains("nearest: "), "{notes}");
    }
}

#[test]
fn what_runs_is_captured() {
    let server = laptop().with_file_name("captured-server");
    for (root, expected) in [
        (
            laptop(),
            "menu + intel_pstate-hwp[hwp_dynamic_boost=off,epp=balance_performance]",
        ),
        (server, "menu + amd-pstate"),
    ] {
        let (machine, _) = captured_machine(&root);
        let runs = machine.runs.unwrap();
        assert!(runs.starts_with(expected), "{runs}");
        let (result, _) = {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name).display().to_string();
            let (machine, notes) = captured_machine(&root);
            fs::write(path("machine.toml"), machine.to_toml().unwrap()).unwrap();
            fs::write(path("job.fio"), JOB).unwrap();
            let (job, file) = (path("job.fio"), path("machine.toml"));
            let arguments = [
                "sim",
                &job,
                "--machine",
                &file,
                "--runs",
                "1",
                "--format",
                "json",
            ];
            (json(&wakepath(&arguments).success()), notes)
        };
        let policies = result["results"][0]["policy"].to_string();
        let frequency = runs.split(" + ").nth(1).unwrap().split('[').next().unwrap();
        assert!(policies.contains(frequency), "{policies}");
    }
}

#[test]
fn what_tells_the_kind_of_machine_is_kept() {
    let tree = planted("ryzen-laptop");
    let told = [
        ("sys/firmware/acpi/pm_profile", "1"),
        ("sys/class/dmi/id/chassis_type", "10"),
        ("sys/class/power_supply/BAT0/type", "Battery"),
        ("sys/class/power_supply/BAT0/scope", "System"),
        ("proc/device-tree/chassis-type", "laptop"),
    ];
    for (path, text) in told {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let into = tempfile::tempdir().unwrap();
    let (root, directory) = (tree.path().to_str().unwrap(), into.path().join("x"));
    wakepath(&[
        "machine",
        "capture",
        "--root",
        root,
        "-o",
        directory.to_str().unwrap(),
    ])
    .success();
    for (path, text) in told {
        assert_eq!(fs::read_to_string(directory.join(path)).unwrap(), text);
    }
    // ACPI says desktop, and no desktop with Ryzen is known.
    let (machine, notes) = captured_machine(&directory);
    assert!(!machine.has_cpu_or_package_power(), "{notes}");
    assert!(notes.contains("desktop by ACPI's pm_profile 1"), "{notes}");
    let mouse = directory.join("sys/class/power_supply/BAT0/scope");
    fs::write(mouse, "Device").unwrap();
    fs::remove_file(directory.join("sys/firmware/acpi/pm_profile")).unwrap();
    fs::remove_file(directory.join("sys/class/dmi/id/chassis_type")).unwrap();
    let (_, notes) = captured_machine(&directory);
    assert!(
        notes.contains("laptop by the device tree's chassis"),
        "{notes}"
    );
}
