//! Files of a running or captured machine: one file of a small machine gets other content, and every reader of machines
//! has to cope. The first byte picks the file.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use wakepath_settings::{SettingsPlan, Targets, policy};
use wakepath_system::status::Status;
use wakepath_system::{Root, SettingKey, System, capture, journal, nvme};

const CPU: &str = "sys/devices/system/cpu";

/// Files with their usual content.
const FILES: [(&str, &str); 24] = [
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/cpuidle/current_governor", "menu\n"),
    (
        "sys/devices/system/cpu/cpuidle/available_governors",
        "ladder menu teo \n",
    ),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
    (
        "sys/devices/system/cpu/cpu0/cpuidle/state0/residency",
        "0\n",
    ),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n"),
    (
        "sys/devices/system/cpu/cpu0/cpuidle/state1/residency",
        "4\n",
    ),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/usage", "12\n"),
    (
        "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us",
        "0\n",
    ),
    (
        "sys/devices/system/cpu/cpufreq/policy0/affected_cpus",
        "0 1\n",
    ),
    (
        "sys/devices/system/cpu/cpufreq/policy0/scaling_driver",
        "intel_pstate\n",
    ),
    (
        "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq",
        "800000\n",
    ),
    (
        "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
        "3000000\n",
    ),
    ("sys/block/nvme0n1/stat", "1 2 3 4 5 6 7 8 9 10 11\n"),
    (
        "proc/interrupts",
        "           CPU0       CPU1\n 121:  5  0  PCI-MSI 1-edge  nvme0q1\n",
    ),
    ("proc/uptime", "100.0 50.0\n"),
    ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\n"),
    ("proc/cmdline", "quiet intel_idle.max_cstate=1\n"),
    (
        "var/lib/wakepath/journal.json",
        "{\"schema\":1,\"boot\":\"\",\"layers\":[]}",
    ),
    ("dev/nvme0.feature-0c", "\0\0\0\0"),
    ("sys/class/power_supply/AC/online", "1\n"),
];

fn machine() -> &'static PathBuf {
    static MACHINE: OnceLock<PathBuf> = OnceLock::new();
    MACHINE.get_or_init(|| {
        // In memory, where a file system in memory is mounted.
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        };
        let directory = base.join(format!("wakepath-fuzz-{}", std::process::id()));
        for (path, content) in FILES {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
            fs::write(path, content).expect("a file");
        }
        fs::create_dir_all(directory.join("sys/class/nvme/nvme0")).expect("a directory");
        directory
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((pick, content)) = data.split_first() else {
        return;
    };
    let (file, usual) = FILES[usize::from(*pick) % FILES.len()];
    let directory = machine();
    fs::write(directory.join(file), content).expect("a file");

    let system = System::new(Root::at_directory(directory));
    let _ = Status::activity_since_boot(&system, true);
    let _ = capture::machine::describe_machine(&system, "fuzz");
    let _ = capture::Capture::read(&system);
    let _ = journal::list_held_settings_and_new_values(system.root());
    let _ = journal::recover_legible_settings(data);
    let _ = nvme::identify_drive(system.root(), "nvme0");
    let _ = wakepath_settings::PowerSupply::read(system.root());
    for name in [
        "idle-states[ceiling=C1]",
        "cpu-latency[limit=20us,cpus=all]",
        "idle-states[disable=C1]",
        "menu",
        "intel_pstate-hwp",
    ] {
        let set = name.parse().expect("a policy set");
        if let Ok(wanted) = policy::resolve_to_settings(&system, &set, &Targets::default()) {
            let _ = SettingsPlan::from_wanted(&system, wanted);
        }
    }
    if let Ok(text) = std::str::from_utf8(content) {
        let _ = wakepath_units::cpus::parse_cpu_list(text);
        let _ = nvme::ApstFeature::parse(text);
        if let Ok(key) = text.parse::<SettingKey>() {
            assert!(!key.relative_path().contains("..") && !key.relative_path().starts_with('/'));
        }
    }
    assert!(directory.join(CPU).is_dir());
    fs::write(directory.join(file), usual).expect("a file");
});
