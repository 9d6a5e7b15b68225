//! What only the kernel command line decides: policies that take another boot name the word.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use wakepath_settings::{Targets, policy};
use wakepath_system::System;

use crate::common::{laptop, write};

const COMMAND_LINE: &str = "proc/cmdline";

/// Why a machine refuses a policy; empty: it does not.
fn refusal(system: &System, name: &str) -> String {
    policy::resolve_to_settings(system, &name.parse().unwrap(), &Targets::default())
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

#[test]
fn a_limit_of_idle_states_at_boot_is_named_with_the_way_out() {
    let (directory, system) = laptop();
    let deeper = "idle-states[ceiling=C11]";
    let plain = refusal(&system, deeper);
    assert!(
        !plain.is_empty() && !plain.contains("--kernel-word"),
        "{plain}"
    );
    for (driver, word, other) in [
        (
            "intel_idle",
            "intel_idle.max_cstate",
            "processor.max_cstate",
        ),
        ("acpi_idle", "processor.max_cstate", "intel_idle.max_cstate"),
    ] {
        let in_use = "sys/devices/system/cpu/cpuidle/current_driver";
        write(directory.path(), in_use, &format!("{driver}\n"));
        write(directory.path(), COMMAND_LINE, &format!("quiet {word}=9\n"));
        assert_eq!(refusal(&system, deeper), plain);
        write(directory.path(), COMMAND_LINE, &format!("quiet {word}=2\n"));
        for name in [deeper, "idle-states[disable=C11]"] {
            let refused = refusal(&system, name);
            let parts = [
                format!("{word}=2 on the kernel command line leaves states out"),
                format!("`wakepath apply --kernel-word {word}=9` says how"),
            ];
            for part in parts {
                assert!(refused.contains(&part), "{name}: {refused}");
            }
            assert!(!refused.contains(other), "{refused}");
        }
    }
}

#[test]
fn a_machine_without_idle_states_gets_them_by_the_word_for_its_kind() {
    let (directory, system) = laptop();
    for cpu in fs::read_dir(directory.path().join("sys/devices/system/cpu")).unwrap() {
        let states = cpu.unwrap().path().join("cpuidle/state0");
        if let Some(all) = states.parent().filter(|_| states.exists()) {
            fs::remove_dir_all(all).unwrap();
        }
    }
    let name = "idle-states[ceiling=20us]";
    let plain = refusal(&system, name);
    assert!(
        plain.ends_with("no idle states (no cpuidle driver)"),
        "{plain}"
    );
    write(directory.path(), COMMAND_LINE, "intel_idle.max_cstate=0\n");
    let off = refusal(&system, name);
    assert!(
        off.contains("--kernel-word intel_idle.max_cstate=9"),
        "{off}"
    );
    make_guest(directory.path());
    let guest = refusal(&system, name);
    assert!(
        guest.contains("--kernel-word cpuidle_haltpoll.force=Y"),
        "{guest}"
    );
}

fn make_guest(machine: &Path) {
    let path = machine.join("proc/cpuinfo");
    let text = fs::read_to_string(&path).unwrap();
    let guest = text.replace("flags\t\t:", "flags\t\t: hypervisor");
    fs::write(path, guest).unwrap();
}

#[test]
fn drivers_and_aspm_that_take_another_boot_name_the_word() {
    let (directory, system) = laptop();
    let machine = directory.path();
    for policy in fs::read_dir(machine.join("sys/devices/system/cpu/cpufreq")).unwrap() {
        fs::write(
            policy.unwrap().path().join("scaling_driver"),
            "intel_cpufreq\n",
        )
        .unwrap();
    }
    let passive = refusal(&system, "intel_pstate-hwp");
    assert!(
        passive.contains("--kernel-word intel_pstate=active"),
        "{passive}"
    );
    let amd = refusal(&system, "amd-pstate");
    assert!(amd.contains("--kernel-word amd_pstate=active"), "{amd}");
    assert!(!refusal(&system, "aspm[policy=powersave]").contains("--kernel-word"));
    write(machine, COMMAND_LINE, "pcie_aspm=off\n");
    let aspm = refusal(&system, "aspm[policy=powersave]");
    assert!(aspm.contains("take that word out"), "{aspm}");
    assert!(!aspm.contains("pcie_aspm=force"), "{aspm}");
}

/// HWP is off by a word, which another word of the same key replaces.
#[test]
fn a_word_against_hwp_is_replaced() {
    let (directory, system) = laptop();
    let cpus = directory.path().join("sys/devices/system/cpu");
    fs::remove_file(cpus.join("intel_pstate/hwp_dynamic_boost")).unwrap();
    for entry in fs::read_dir(cpus.join("cpufreq")).unwrap() {
        let preference = entry.unwrap().path().join("energy_performance_preference");
        fs::remove_file(preference).unwrap();
    }
    let unknown = refusal(&system, "intel_pstate-hwp");
    assert!(!unknown.contains("--kernel-word"), "{unknown}");
    write(directory.path(), COMMAND_LINE, "intel_pstate=no_hwp\n");
    let refused = refusal(&system, "intel_pstate-hwp");
    assert!(
        refused.contains("--kernel-word intel_pstate=active"),
        "{refused}"
    );
}
