//! Reads facts about the machine that is recorded.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use wakepath_hardware::IdleState;
use wakepath_system::setting::{SETTINGS, SettingScope};
use wakepath_system::{Root, SettingKey, System};
use wakepath_trace::recording::{
    BlockDevice, CpuIdleStates, FrequencyDomain, MAX_NAMES, Metadata, RecordedSetting,
};
use wakepath_units::{Nanoseconds, cpus};

const CPUS: &str = "sys/devices/system/cpu";

/// Reads the machine's idle states, governors, frequencies and drives; what is not there stays unknown.
pub fn read_metadata(system: &System) -> Metadata {
    let root = system.root();
    let kernel = root.read_text_if_readable("proc/sys/kernel/osrelease");
    let siblings = read_cpu_groups(system, &["thread_siblings_list"]);
    Metadata {
        source: "wakepath record".to_owned(),
        hz: kernel
            .as_deref()
            .and_then(|release| read_configured_hz(root, release)),
        kernel,
        architecture: Some(std::env::consts::ARCH.to_owned()),
        processor: read_first_processor_name(root),
        machine_id: read_machine_id_digest(root),
        clock: Some("mono".to_owned()),
        cpus: system.cpus().len() as u32,
        idle_driver: read_file_unless_none(root, &format!("{CPUS}/cpuidle/current_driver")),
        idle_governor: read_file_unless_none(root, &format!("{CPUS}/cpuidle/current_governor"))
            .or_else(|| {
                read_file_unless_none(root, &format!("{CPUS}/cpuidle/current_governor_ro"))
            }),
        idle_states: read_idle_state_groups(system),
        timer_stops: read_states_that_stop_timers(root),
        clusters: read_clusters_of_several_cores(system, &siblings),
        packages: read_cpu_groups(system, &["package_cpus_list", "core_siblings_list"]),
        siblings,
        frequency_driver: read_file_unless_none(
            root,
            &format!("{CPUS}/cpufreq/policy0/scaling_driver"),
        ),
        frequency_domains: read_frequency_domains(system),
        devices: read_nonempty_block_devices(root),
        interrupts: read_interrupt_names(root),
        settings: read_settings_except_idle_states(system),
        ..Metadata::default()
    }
}

/// Reads the name of the first processor.
fn read_first_processor_name(root: &Root) -> Option<String> {
    let info = root.read_text_if_readable("proc/cpuinfo")?;
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    })
}

/// A digest of the system's identity; `machine-id(5)` asks not to publish the identity itself.
fn read_machine_id_digest(root: &Root) -> Option<String> {
    let id = root
        .read_text_if_readable("etc/machine-id")
        .filter(|id| id.len() == 32)?;
    let digest = Sha256::digest(format!("wakepath recording {id}"));
    let [first, ..] = *digest.as_chunks::<8>().0 else {
        return None;
    };
    Some(format!("{:016x}", u64::from_be_bytes(first)))
}

/// Reads all settings that the machine has, except for idle states switched off, which the idle states tell, and for interrupts,
/// whose numbers change at each boot.
fn read_settings_except_idle_states(system: &System) -> Vec<RecordedSetting> {
    let mut settings: Vec<RecordedSetting> = Vec::new();
    for info in SETTINGS
        .iter()
        .filter(|s| !matches!(s.scope, SettingScope::IdleState | SettingScope::Interrupt))
    {
        let first = settings.len();
        for at in system.places_in_scope(info.scope) {
            let place = at.to_string();
            let Some(value) = SettingKey::for_matching_scope(info, at)
                .and_then(|key| system.read_setting(&key).ok())
            else {
                continue;
            };
            match settings[first..].iter_mut().find(|s| s.value == value) {
                Some(same) => same.places.push(place),
                None => settings.push(RecordedSetting {
                    name: info.name.to_owned(),
                    places: vec![place],
                    value,
                }),
            }
        }
    }
    settings
}

/// Reads a file; `None` also for the word `none`, which the kernel writes for nothing.
fn read_file_unless_none(root: &Root, file: &str) -> Option<String> {
    root.read_text_if_readable(file)
        .filter(|text| !text.is_empty() && text != "none")
}

/// Reads the CPUs' idle states; CPUs with the same states make one group.
fn read_idle_state_groups(system: &System) -> Vec<CpuIdleStates> {
    let mut groups: Vec<CpuIdleStates> = Vec::new();
    for cpu in system.cpus() {
        let states: Vec<IdleState> = system
            .read_idle_states(cpu)
            .into_iter()
            .map(|state| IdleState {
                name: state.name,
                exit_latency: Nanoseconds::from_micros(state.latency_us),
                target_residency: Nanoseconds::from_micros(state.residency_us),
                polling: state.polling,
                disabled: state.disabled,
            })
            .collect();
        if states.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|group| group.states == states) {
            Some(group) => group.cpus.push(cpu as u32),
            None => groups.push(CpuIdleStates {
                cpus: vec![cpu as u32],
                states,
            }),
        }
    }
    groups
}

/// Longest name of an idle state: `CPUIDLE_NAME_LEN` of the kernel, less its end.
const STATE_NAME_BYTES: usize = 15;

/// Names of idle states in which the CPU's own timer stops, by the device tree. Cpuidle drivers name a state by its node. Timers
/// of x86 go on in all states where the processor has ARAT.
fn read_states_that_stop_timers(root: &Root) -> Vec<String> {
    let folder = "sys/firmware/devicetree/base/cpus/idle-states";
    let nodes = root.list_names(folder).into_iter();
    let mut names: Vec<String> = nodes
        .filter(|node| root.exists(&format!("{folder}/{node}/local-timer-stop")))
        .map(|node| {
            let name = node.split('@').next().unwrap_or_default();
            name.chars().take(STATE_NAME_BYTES).collect()
        })
        .collect();
    names.sort();
    names.truncate(MAX_NAMES);
    names
}

/// CPUs that have no idle states although others have: no governor chooses for them.
pub(crate) fn find_cpus_without_states_among_others(
    system: &System,
    states: &[CpuIdleStates],
) -> Vec<u32> {
    if states.is_empty() {
        return Vec::new();
    }
    let online = system.cpus().into_iter().map(|cpu| cpu as u32);
    online
        .filter(|cpu| !states.iter().any(|group| group.cpus.contains(cpu)))
        .collect()
}

fn read_frequency_domains(system: &System) -> Vec<FrequencyDomain> {
    let root = system.root();
    system
        .active_cpufreq_policies()
        .into_iter()
        .map(|policy| {
            let folder = root.folder(format!("{CPUS}/cpufreq/policy{policy}"));
            let table = folder.read_text_if_readable("scaling_available_frequencies");
            let mut khz: Vec<u32> = match table {
                Some(table) => table
                    .split_whitespace()
                    .filter_map(|word| word.parse().ok())
                    .collect(),
                None => ["cpuinfo_min_freq", "cpuinfo_max_freq"]
                    .into_iter()
                    .filter_map(|file| folder.read_small_number(file))
                    .collect(),
            };
            khz.sort_unstable();
            khz.dedup();
            FrequencyDomain {
                cpus: system
                    .online_cpus_of_cpufreq_policy(policy)
                    .into_iter()
                    .map(|cpu| cpu as u32)
                    .collect(),
                khz,
                governor: folder.read_text_if_readable("scaling_governor"),
            }
        })
        .collect()
}

fn read_nonempty_block_devices(root: &Root) -> Vec<BlockDevice> {
    root.list_names("sys/block")
        .into_iter()
        .filter_map(|name| {
            let directory = format!("sys/block/{name}");
            // A block device without a size is left out: unused loop devices, empty card readers.
            root.read_number_if_readable(&format!("{directory}/size"))
                .filter(|size| *size > 0)?;
            let numbers = root.read_text_if_readable(&format!("{directory}/dev"))?;
            let (major, minor) = numbers.split_once(':')?;
            let device = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
            let model = root.read_text_if_readable(&format!("{directory}/device/model"));
            Some(BlockDevice {
                device,
                name,
                model,
            })
        })
        .collect()
}

/// Groups of CPUs that share a cluster; those of a single core are left out.
fn read_clusters_of_several_cores(system: &System, cores: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut clusters = read_cpu_groups(system, &["cluster_cpus_list"]);
    clusters.retain(|cluster| !cores.contains(cluster));
    clusters
}

/// Groups of CPUs by the first of these files of each CPU's topology that there is; groups of one CPU are left out.
fn read_cpu_groups(system: &System, files: &[&str]) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut grouped: BTreeSet<u32> = BTreeSet::new();
    for cpu in system.cpus() {
        if u32::try_from(cpu).is_ok_and(|cpu| grouped.contains(&cpu)) {
            continue;
        }
        let mut lists = files.iter().filter_map(|file| {
            let path = format!("{CPUS}/cpu{cpu}/topology/{file}");
            system.root().read_text_if_readable(&path)
        });
        let list = lists.next().unwrap_or_default();
        let listed = cpus::parse_cpu_list(&list).unwrap_or_default().into_iter();
        let group: Vec<u32> = listed.filter_map(|cpu| u32::try_from(cpu).ok()).collect();
        if group.len() > 1 {
            grouped.extend(&group);
            groups.push(group);
        }
    }
    groups
}

/// Reads the interrupts' names, as the handlers give them.
pub(crate) fn read_interrupt_names(root: &Root) -> BTreeMap<u32, String> {
    let names = root.list_names("sys/kernel/irq").into_iter();
    let named = names.filter_map(|number| {
        let name = root.read_text_if_readable(&format!("sys/kernel/irq/{number}/actions"))?;
        Some((number.parse().ok()?, name))
    });
    named
        .filter(|(_, name)| !name.is_empty())
        .take(MAX_NAMES)
        .collect()
}

/// Reads `CONFIG_HZ` from where the distribution puts the kernel's configuration.
fn read_configured_hz(root: &Root, release: &str) -> Option<u32> {
    [
        format!("boot/config-{release}"),
        format!("usr/lib/modules/{release}/config"),
        format!("lib/modules/{release}/config"),
    ]
    .iter()
    .find_map(|file| {
        root.read_text_if_readable(file)?
            .lines()
            .find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok())
    })
}

/// A moment on two clocks: the kernel's ticks and its nanoseconds. Two moments give the tick rate where the kernel's
/// configuration is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickClock {
    ticks: u64,
    ns: u64,
}

impl TickClock {
    /// Reads both clocks now; `None` where the kernel does not show them (`/proc/timer_list`, root only).
    pub fn read_now(root: &Root) -> Option<Self> {
        let list = root.read_text_if_readable("proc/timer_list")?;
        let ns = list
            .lines()
            .find_map(|line| line.strip_prefix("now at ")?.strip_suffix(" nsecs"))?;
        let ticks = list
            .lines()
            .find_map(|line| line.trim().strip_prefix("jiffies:"))?;
        Some(Self {
            ticks: ticks.trim().parse().ok()?,
            ns: ns.parse().ok()?,
        })
    }

    /// The tick rate in Hz between two moments; `None` if they are too close to tell it from other usual rates.
    pub fn usual_tick_rate_since(self, earlier: Self) -> Option<u32> {
        // Tick rates in kernel/Kconfig.hz, and those of single architectures and distributions.
        const RATES: [u32; 8] = [24, 48, 100, 128, 250, 300, 500, 1000];
        let ticks = self.ticks.checked_sub(earlier.ticks)?;
        let ns = self.ns.checked_sub(earlier.ns).filter(|ns| *ns > 0)?;
        let measured = ticks as f64 * 1e9 / ns as f64;
        RATES.into_iter().find(|rate| {
            let rate = f64::from(*rate);
            // Tolerance: one tick more or less, and 2 % for ticks that a stopped tick counts late.
            (measured - rate).abs() < rate * 0.02 + 1e9 / ns as f64
                && 1e9 / (ns as f64) < rate * 0.05
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let directory = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System::new(Root::at_directory(directory.path()));
        (directory, system)
    }

    fn state_file(cpu: u32, state: u32, file: &str) -> String {
        format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/{file}")
    }

    const fn clock(ticks: u64, ns: u64) -> TickClock {
        TickClock { ticks, ns }
    }

    /// A cluster of one core says no more than the core, and is left out.
    #[test]
    fn cpus_that_share_cores_clusters_and_packages_are_read() {
        let lists = |cpu: u32| match cpu {
            0 | 1 => ["0-1", "0-1", "0-3"],
            2 => ["2", "2-3", "0-3"],
            3 => ["3", "2-3", "0-3"],
            _ => ["4", "4", "4"],
        };
        let names = [
            "thread_siblings_list",
            "cluster_cpus_list",
            "package_cpus_list",
        ];
        let mut files = vec![("sys/devices/system/cpu/online".to_owned(), "0-4\n")];
        for cpu in 0..5 {
            for (name, list) in names.iter().zip(lists(cpu)) {
                files.push((format!("{CPUS}/cpu{cpu}/topology/{name}"), list));
            }
        }
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(file, text)| (file.as_str(), *text))
            .collect();
        let (_directory, system) = machine(&files);
        let read = read_metadata(&system);
        assert_eq!(read.siblings, [[0, 1]]);
        assert_eq!(read.clusters, [[2, 3]]);
        assert_eq!(read.packages, [[0, 1, 2, 3]]);
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let mut files = vec![
            ("proc/sys/kernel/osrelease".to_owned(), "6.1.0-56-amd64\n"),
            (
                "boot/config-6.1.0-56-amd64".to_owned(),
                "CONFIG_HZ_250=y\nCONFIG_HZ=250\n",
            ),
            ("sys/devices/system/cpu/online".to_owned(), "0-1\n"),
            (
                "proc/cpuinfo".to_owned(),
                "processor\t: 0\nmodel name\t: A processor\n",
            ),
            (
                "etc/machine-id".to_owned(),
                "0123456789abcdef0123456789abcdef\n",
            ),
            (
                "sys/firmware/devicetree/base/cpus/idle-states/cpu-sleep-0/compatible".to_owned(),
                "arm,idle-state\0",
            ),
            (
                "sys/firmware/devicetree/base/cpus/idle-states/cluster-sleep-0/local-timer-stop"
                    .to_owned(),
                "",
            ),
            (
                "sys/module/haltpoll/parameters/guest_halt_poll_ns".to_owned(),
                "0\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us".to_owned(),
                "20\n",
            ),
            (
                "sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us".to_owned(),
                "20\n",
            ),
            (
                "sys/devices/system/cpu/cpuidle/current_governor".to_owned(),
                "menu\n",
            ),
            (
                "sys/devices/system/cpu/cpuidle/current_driver".to_owned(),
                "none\n",
            ),
            ("sys/block/nvme0n1/dev".to_owned(), "259:1\n"),
            ("sys/block/nvme0n1/size".to_owned(), "1000\n"),
            ("sys/block/nvme0n1/device/model".to_owned(), "A drive   \n"),
            ("sys/block/loop0/dev".to_owned(), "7:0\n"),
            ("sys/block/loop0/size".to_owned(), "0\n"),
            (
                "sys/devices/system/cpu/cpufreq/policy0/affected_cpus".to_owned(),
                "0 1\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_min_freq".to_owned(),
                "800000\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq".to_owned(),
                "3000000\n",
            ),
        ];
        for cpu in 0..2 {
            files.push((state_file(cpu, 0, "name"), "POLL\n"));
            files.push((state_file(cpu, 0, "latency"), "0\n"));
            files.push((state_file(cpu, 0, "residency"), "0\n"));
            files.push((state_file(cpu, 1, "name"), "C1\n"));
            files.push((state_file(cpu, 1, "latency"), "2\n"));
            files.push((state_file(cpu, 1, "residency"), "4\n"));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(f, t)| (f.as_str(), *t)).collect();
        let (_directory, system) = machine(&files);

        let m = read_metadata(&system);
        assert_eq!((m.hz, m.cpus), (Some(250), 2));
        assert_eq!(
            (m.idle_governor.as_deref(), m.idle_driver),
            (Some("menu"), None)
        );
        assert_eq!(m.idle_states.len(), 1);
        assert_eq!(m.idle_states[0].cpus, [0, 1]);
        assert_eq!(m.idle_states[0].states[1].target_residency.0, 4_000);
        assert!(find_cpus_without_states_among_others(&system, &m.idle_states).is_empty());
        // A CPU without idle states among others, and a machine without any.
        let only_first = [CpuIdleStates {
            cpus: vec![0],
            ..m.idle_states[0].clone()
        }];
        assert_eq!(
            find_cpus_without_states_among_others(&system, &only_first),
            [1]
        );
        assert!(find_cpus_without_states_among_others(&system, &[]).is_empty());
        assert_eq!(m.devices.len(), 1);
        assert_eq!(
            (m.devices[0].device, m.devices[0].model.as_deref()),
            (259 << 20 | 1, Some("A drive"))
        );
        assert_eq!(m.frequency_domains[0].khz, [800_000, 3_000_000]);
        assert_eq!(m.processor.as_deref(), Some("A processor"));
        // Tells machines apart, and does not give the identity away.
        assert_eq!(m.timer_stops, ["cluster-sleep-0"]);
        let id = m.machine_id.unwrap();
        assert_eq!(id.len(), 16);
        assert!(!"0123456789abcdef0123456789abcdef".contains(&id), "{id}");
        let settings: Vec<_> = m
            .settings
            .iter()
            .map(|s| (s.name.as_str(), s.places.join(" "), s.value.as_str()))
            .collect();
        assert!(settings.contains(&("haltpoll-max", "system".to_owned(), "0")));
        assert!(settings.contains(&("cpu-latency", "cpu0 cpu1".to_owned(), "20")));
    }

    #[test]
    fn nothing_is_known_of_an_empty_machine() {
        let (_directory, system) = machine(&[]);
        let m = read_metadata(&system);
        assert_eq!(
            (m.hz, m.kernel, m.idle_states.len(), m.devices.len()),
            (None, None, 0, 0)
        );
    }

    #[test]
    fn two_moments_give_the_tick_rate() {
        assert_eq!(
            clock(250, 1_000_000_000).usual_tick_rate_since(clock(0, 0)),
            Some(250)
        );
        assert_eq!(
            clock(1001, 1_000_000_000).usual_tick_rate_since(clock(0, 0)),
            Some(1000)
        );
        assert_eq!(
            clock(90, 300_000_000).usual_tick_rate_since(clock(0, 0)),
            Some(300)
        );
        // Too short to tell.
        assert_eq!(
            clock(2, 10_000_000).usual_tick_rate_since(clock(0, 0)),
            None
        );
        assert_eq!(clock(0, 0).usual_tick_rate_since(clock(1, 1)), None);
        let (_directory, system) = machine(&[(
            "proc/timer_list",
            "now at 12 nsecs\n\ncpu: 0\n jiffies: 34\n",
        )]);
        assert_eq!(TickClock::read_now(system.root()), Some(clock(34, 12)));
    }
}
