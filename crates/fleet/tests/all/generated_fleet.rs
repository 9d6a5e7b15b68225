//! Generated fleets of captures: classes whose machines vary as real ones do, and planted faults.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// A kind of machine.
pub(crate) struct MachineKind {
    pub(crate) rack: &'static str,
    processor: &'static str,
    /// CPUID family and model.
    identity: (u32, u32),
    drive: &'static str,
    kernel: &'static str,
    governor: &'static str,
    epp: &'static str,
    share: u32,
}

/// Six kinds of machines: three processors, three drives, three kernels.
pub(crate) const KINDS: [MachineKind; 6] = [
    MachineKind {
        rack: "web",
        processor: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
        identity: (6, 106),
        drive: "SAMSUNG MZQL21T9HCJR-00A07",
        kernel: "6.12.48+deb13-amd64",
        governor: "menu",
        epp: "balance_performance",
        share: 40,
    },
    MachineKind {
        rack: "db",
        processor: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
        identity: (6, 106),
        drive: "INTEL SSDPE2KX040T8",
        kernel: "6.12.48+deb13-amd64",
        governor: "menu",
        epp: "performance",
        share: 20,
    },
    MachineKind {
        rack: "old",
        processor: "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz",
        identity: (6, 85),
        drive: "INTEL SSDPE2KX040T8",
        kernel: "6.1.0-44-amd64",
        governor: "menu",
        epp: "balance_performance",
        share: 15,
    },
    MachineKind {
        rack: "amd",
        processor: "AMD EPYC 7502 32-Core Processor",
        identity: (23, 49),
        drive: "SAMSUNG MZQL21T9HCJR-00A07",
        kernel: "6.12.48+deb13-amd64",
        governor: "menu",
        epp: "balance_power",
        share: 15,
    },
    MachineKind {
        rack: "amd-old",
        processor: "AMD EPYC 7502 32-Core Processor",
        identity: (23, 49),
        drive: "SAMSUNG MZQL21T9HCJR-00A07",
        kernel: "6.1.0-44-amd64",
        governor: "menu",
        epp: "balance_power",
        share: 6,
    },
    MachineKind {
        rack: "lab",
        processor: "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz",
        identity: (6, 85),
        drive: "WDC PC SN530 SDBPNPZ-256G-1006",
        kernel: "6.12.48+deb13-amd64",
        governor: "teo",
        epp: "power",
        share: 4,
    },
];

/// Idle states: name, exit latency and residency in us, usual share of time.
const STATES: [(&str, u32, u32, f64); 3] = [
    ("POLL", 0, 0, 0.01),
    ("C1E", 10, 20, 0.2),
    ("C6", 133, 600, 0.5),
];

/// CPUs of a generated machine; few, so that thousands are generated in seconds.
const CPUS: usize = 2;

/// A machine's files by path.
pub(crate) type CaptureFiles = BTreeMap<String, String>;

/// The files of a healthy machine. Counters, times and traffic vary from machine to machine.
pub(crate) fn generate_capture(kind: &MachineKind, random: &mut Pcg64Mcg) -> CaptureFiles {
    generate_capture_with_cpus(kind, CPUS, random)
}

/// The files of a healthy machine with so many CPUs.
pub(crate) fn generate_capture_with_cpus(
    kind: &MachineKind,
    cpus: usize,
    random: &mut Pcg64Mcg,
) -> CaptureFiles {
    let all_cpus = format!("0-{}", cpus - 1);
    let mut files = CaptureFiles::new();
    let mut add = |path: &str, content: String| {
        files.insert(path.to_owned(), content);
    };
    let mut vary = |spread: f64| -> f64 {
        let normal: f64 = StandardNormal.sample(random);
        (spread * normal).exp()
    };
    let uptime = 1e6 * vary(0.5);
    let busy = vary(0.3);
    let (family, model) = kind.identity;
    let vendor = if kind.processor.starts_with("AMD") {
        "AuthenticAMD"
    } else {
        "GenuineIntel"
    };
    let cpuinfo: Vec<String> = (0..cpus)
        .map(|cpu| {
            format!(
                "processor\t: {cpu}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
                 model name\t: {}\nflags\t\t: fpu mwait\n",
                kind.processor
            )
        })
        .collect();
    add("proc/cpuinfo", cpuinfo.join("\n"));
    add("proc/uptime", format!("{uptime:.2} {:.2}", uptime * 1.5));
    add("proc/interrupts", format!("{:.0}", 1e6 * busy));
    add("proc/cmdline", "mitigations=auto nohz=on\n".to_owned());
    add("proc/sys/kernel/osrelease", format!("{}\n", kind.kernel));
    let system = "sys/devices/system/cpu";
    for (file, content) in [
        ("online", &*all_cpus),
        ("present", &all_cpus),
        ("possible", &all_cpus),
        ("smt/active", "0"),
        ("cpuidle/current_driver", "intel_idle"),
        ("cpuidle/current_governor", kind.governor),
        ("cpuidle/available_governors", "ladder menu teo"),
    ] {
        add(&format!("{system}/{file}"), format!("{content}\n"));
    }
    for cpu in 0..cpus {
        let folder = format!("{system}/cpu{cpu}");
        add(
            &format!("{folder}/power/pm_qos_resume_latency_us"),
            "0\n".to_owned(),
        );
        for (index, (name, exit, residency, share)) in STATES.iter().enumerate() {
            let state = format!("{folder}/cpuidle/state{index}");
            let usage = 1e7 * busy * vary(0.2);
            let time_us = share * uptime * 1e6 * vary(0.05);
            for (file, content) in [
                ("name", (*name).to_owned()),
                ("latency", exit.to_string()),
                ("residency", residency.to_string()),
                ("disable", "0".to_owned()),
                ("usage", format!("{usage:.0}")),
                ("time", format!("{time_us:.0}")),
                ("above", format!("{:.0}", usage * 0.04 * vary(0.15))),
                ("below", format!("{:.0}", usage * 0.03 * vary(0.15))),
                ("rejected", format!("{:.0}", usage * 0.001 * vary(0.2))),
            ] {
                add(&format!("{state}/{file}"), format!("{content}\n"));
            }
        }
        let policy = format!("{system}/cpufreq/policy{cpu}");
        for (file, content) in [
            ("affected_cpus", cpu.to_string()),
            ("related_cpus", cpu.to_string()),
            ("scaling_driver", "intel_pstate".to_owned()),
            ("scaling_governor", "powersave".to_owned()),
            (
                "scaling_available_governors",
                "performance powersave".to_owned(),
            ),
            ("scaling_min_freq", "800000".to_owned()),
            ("scaling_max_freq", "3200000".to_owned()),
            ("cpuinfo_min_freq", "800000".to_owned()),
            ("cpuinfo_max_freq", "3200000".to_owned()),
            ("energy_performance_preference", kind.epp.to_owned()),
            (
                "energy_performance_available_preferences",
                "default performance balance_performance balance_power power".to_owned(),
            ),
        ] {
            add(&format!("{policy}/{file}"), format!("{content}\n"));
        }
    }
    for (file, content) in [
        ("model", kind.drive),
        ("firmware_rev", "GDC5302Q"),
        ("state", "live"),
        ("transport", "pcie"),
        ("power/pm_qos_latency_tolerance_us", "100000"),
        ("device/current_link_speed", "16.0 GT/s PCIe"),
        ("device/current_link_width", "4"),
    ] {
        add(
            &format!("sys/class/nvme/nvme0/{file}"),
            format!("{content}\n"),
        );
    }
    let reads = 1e8 * busy * vary(0.3);
    let writes = 1e7 * busy * vary(0.3);
    let read_ms = reads * 0.09 * vary(0.05);
    let write_ms = writes * 0.03 * vary(0.05);
    add(
        "sys/block/nvme0n1/stat",
        format!(
            "{reads:.0} 0 {:.0} {read_ms:.0} {writes:.0} 0 {:.0} {write_ms:.0} 0 0 0",
            reads * 8.0,
            writes * 8.0
        ),
    );
    for (file, content) in [
        ("rotational", "0"),
        ("scheduler", "[none] mq-deadline"),
        ("rq_affinity", "1"),
        ("write_cache", "write through"),
    ] {
        add(
            &format!("sys/block/nvme0n1/queue/{file}"),
            format!("{content}\n"),
        );
    }
    add(
        "sys/module/pcie_aspm/parameters/policy",
        "[default] performance\n".to_owned(),
    );
    add(
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "tsc\n".to_owned(),
    );
    files
}

/// Faults to plant: a name, and the files that show it.
pub(crate) const FAULTS: [(&str, &[(&str, FaultyContent)]); 20] = {
    use FaultyContent::{Factor, Text};
    [
        (
            "EPP",
            &[
                (
                    "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference",
                    Text("default"),
                ),
                (
                    "sys/devices/system/cpu/cpufreq/policy1/energy_performance_preference",
                    Text("default"),
                ),
            ],
        ),
        (
            "EPP of a CPU",
            &[(
                "sys/devices/system/cpu/cpufreq/policy1/energy_performance_preference",
                Text("default"),
            )],
        ),
        (
            "frequency governor",
            &[
                (
                    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                    Text("performance"),
                ),
                (
                    "sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
                    Text("performance"),
                ),
            ],
        ),
        (
            "idle governor",
            &[(
                "sys/devices/system/cpu/cpuidle/current_governor",
                Text("ladder"),
            )],
        ),
        (
            "C6 off",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpuidle/state2/disable",
                    Text("1"),
                ),
                (
                    "sys/devices/system/cpu/cpu1/cpuidle/state2/disable",
                    Text("1"),
                ),
            ],
        ),
        (
            "latency limit",
            &[(
                "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us",
                Text("20"),
            )],
        ),
        (
            "exit latency of firmware",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpuidle/state2/latency",
                    Text("500"),
                ),
                (
                    "sys/devices/system/cpu/cpu1/cpuidle/state2/latency",
                    Text("500"),
                ),
            ],
        ),
        (
            "frequency limit",
            &[
                (
                    "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
                    Text("1200000"),
                ),
                (
                    "sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq",
                    Text("1200000"),
                ),
            ],
        ),
        (
            "CPU offline",
            &[("sys/devices/system/cpu/online", Text("0"))],
        ),
        (
            "clock source",
            &[(
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                Text("hpet"),
            )],
        ),
        (
            "link width",
            &[("sys/class/nvme/nvme0/device/current_link_width", Text("1"))],
        ),
        (
            "link speed",
            &[(
                "sys/class/nvme/nvme0/device/current_link_speed",
                Text("2.5 GT/s PCIe"),
            )],
        ),
        (
            "drive firmware",
            &[("sys/class/nvme/nvme0/firmware_rev", Text("GDC1302Q"))],
        ),
        (
            "kernel release",
            &[("proc/sys/kernel/osrelease", Text("6.12.17-amd64"))],
        ),
        (
            "command line",
            &[(
                "proc/cmdline",
                Text("mitigations=auto nohz=on intel_idle.max_cstate=1"),
            )],
        ),
        (
            "I/O scheduler",
            &[(
                "sys/block/nvme0n1/queue/scheduler",
                Text("none [mq-deadline]"),
            )],
        ),
        (
            "ASPM",
            &[(
                "sys/module/pcie_aspm/parameters/policy",
                Text("default [powersupersave]"),
            )],
        ),
        (
            "refused C6",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpuidle/state2/rejected",
                    Factor(1500.0),
                ),
                (
                    "sys/devices/system/cpu/cpu1/cpuidle/state2/rejected",
                    Factor(1500.0),
                ),
            ],
        ),
        (
            "too deep",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpuidle/state2/above",
                    Factor(12.0),
                ),
                (
                    "sys/devices/system/cpu/cpu1/cpuidle/state2/above",
                    Factor(12.0),
                ),
            ],
        ),
        (
            "sleeps little",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpuidle/state2/time",
                    Factor(0.1),
                ),
                (
                    "sys/devices/system/cpu/cpu1/cpuidle/state2/time",
                    Factor(0.1),
                ),
            ],
        ),
    ]
};

/// Facts with several values among healthy machines, in order of their names.
pub(crate) const VARIED_FACTS: [&str; 2] = ["kernel command line", "rq-affinity"];

/// Harmless settings of some healthy machines: share of the machines, file, content. A fault is planted in the first file, too.
const VARIATIONS: [(f64, &str, &str); 2] = [
    (0.3, "proc/cmdline", "mitigations=auto nohz=on quiet"),
    (0.1, "sys/block/nvme0n1/queue/rq_affinity", "2"),
];

/// What a fault writes into a file.
#[derive(Clone, Copy)]
pub(crate) enum FaultyContent {
    /// This text.
    Text(&'static str),
    /// The healthy number times a factor.
    Factor(f64),
}

/// A fleet on disk.
pub(crate) struct GeneratedFleet {
    pub(crate) folder: tempfile::TempDir,
    /// Names of machines with a planted fault, with the fault.
    pub(crate) faulty: BTreeMap<String, &'static str>,
    /// Number of machines by rack.
    pub(crate) by_rack: BTreeMap<&'static str, usize>,
}

/// Generates a fleet with all faults, each on a machine of its own. `seed` chooses the kind, the smallest as often as the
/// largest, and then the machine.
pub(crate) fn generate_fleet(machines: usize, seed: u64) -> GeneratedFleet {
    // In memory where possible: a drive may take minutes to remove 60,000 small files.
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut fleet = GeneratedFleet {
        folder,
        faulty: BTreeMap::new(),
        by_rack: BTreeMap::new(),
    };
    let mut planned: Vec<(usize, String)> = Vec::new();
    for (place, kind) in KINDS.iter().enumerate() {
        let count = machines * kind.share as usize / 100;
        fleet.by_rack.insert(kind.rack, count);
        planned.extend((0..count).map(|number| (place, format!("{}/{number:04}", kind.rack))));
    }
    // The release of the planted fault is of series 6.12: a machine of another series would be a class of its own.
    let kinds: Vec<usize> = (0..KINDS.len())
        .filter(|kind| KINDS[*kind].kernel.starts_with("6.12."))
        .collect();
    let mut faults: BTreeMap<usize, usize> = BTreeMap::new();
    for fault in 0..FAULTS.len() {
        loop {
            let kind = kinds[random.random_range(0..kinds.len())];
            let candidates: Vec<usize> = (0..planned.len())
                .filter(|index| planned[*index].0 == kind)
                .collect();
            let place = candidates[random.random_range(0..candidates.len())];
            if faults.values().all(|taken| *taken != fault) && !faults.contains_key(&place) {
                faults.insert(place, fault);
                break;
            }
        }
    }
    for (index, (place, name)) in planned.iter().enumerate() {
        let mut files = generate_capture(&KINDS[*place], &mut random);
        for (share, path, content) in VARIATIONS {
            if random.random_bool(share) {
                files.insert(path.to_owned(), format!("{content}\n"));
            }
        }
        if let Some(fault) = faults.get(&index) {
            let (fault_name, changes) = FAULTS[*fault];
            plant_fault(&mut files, changes);
            fleet.faulty.insert(name.clone(), fault_name);
        }
        write_capture(&fleet.folder.path().join(name), &files);
    }
    fleet
}

fn plant_fault(files: &mut CaptureFiles, changes: &[(&str, FaultyContent)]) {
    for (path, content) in changes {
        let healthy = files.get_mut(*path).unwrap();
        *healthy = match content {
            FaultyContent::Text(text) => format!("{text}\n"),
            FaultyContent::Factor(factor) => {
                let number: f64 = healthy.trim().parse().unwrap();
                format!("{:.0}\n", number * factor)
            }
        };
    }
}

/// Writes a capture.
pub(crate) fn write_capture(folder: &Path, files: &CaptureFiles) {
    let mut made = PathBuf::new();
    for (path, content) in files {
        let file = folder.join(path);
        let parent = file.parent().unwrap();
        if parent != made {
            fs::create_dir_all(parent).unwrap();
            parent.clone_into(&mut made);
        }
        fs::write(file, content).unwrap();
    }
}
