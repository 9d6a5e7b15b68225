//! Facts and figures of a machine, the ground for classes and outliers.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};
use wakepath_system::capture::class::MachineClass;
use wakepath_system::setting::{SETTINGS, SettingScope};
use wakepath_system::{CPUS, Root, SettingKey, System};

/// Most CPUs of a machine.
const MOST_CPUS: usize = 4096;

/// Longest text of a fact, in characters.
const LONGEST_FACT: usize = 300;

/// Fewest entries or requests for a share or a mean.
const FEWEST_EVENTS: u64 = 1000;

/// Features shared by all machines of a class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClassKey {
    /// Name of the processor.
    pub processor: String,
    /// Models of the drives, sorted.
    pub drives: Vec<String>,
    /// Series of the kernel, such as 6.12.
    pub kernel: String,
    /// Labels that the user gave.
    pub labels: Vec<String>,
}

impl ClassKey {
    /// The class in words.
    pub fn describe(&self) -> String {
        let drives = match &self.drives[..] {
            [] => "no NVMe drive".to_owned(),
            drives => drives.join(" + "),
        };
        let mut text = format!("{}, {drives}, Linux {}", self.processor, self.kernel);
        for label in &self.labels {
            text.push_str(", ");
            text.push_str(label);
        }
        text
    }

    /// How much two classes have in common, 0 to 15: the processor counts most, then the drives, the kernel, the labels.
    pub(crate) fn likeness(&self, other: &Self) -> u32 {
        8 * u32::from(self.processor == other.processor)
            + 4 * u32::from(self.drives == other.drives)
            + 2 * u32::from(self.kernel == other.kernel)
            + u32::from(self.labels == other.labels)
    }
}

/// Facts and figures of a captured machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFacts {
    /// Features shared with the machine's class.
    pub key: ClassKey,
    /// Settings and other facts by name, as text.
    pub facts: BTreeMap<String, String>,
    /// Figures of the kernel's counters by name.
    pub figures: BTreeMap<String, f64>,
    /// A digest of facts and counters, to find copies.
    pub digest: [u8; 32],
}

impl MachineFacts {
    /// Reads a captured machine.
    ///
    /// # Errors
    /// A sentence: no such machine exists.
    pub fn read(system: &System, labels: Vec<String>) -> Result<Self, String> {
        let root = system.root();
        let cpuinfo = root.read_text_if_readable("proc/cpuinfo");
        if cpuinfo.is_none_or(|text| text.is_empty()) {
            return Err("proc/cpuinfo names no processor".to_owned());
        }
        let processor = shorten(&MachineClass::read(root).processor.name);
        let cpus = system.cpus();
        if cpus.is_empty() || cpus.len() > MOST_CPUS {
            return Err(format!(
                "{} CPUs online; expected 1 to {MOST_CPUS}",
                cpus.len()
            ));
        }
        let release = system.read_kernel_release().unwrap_or_default();
        let key = ClassKey {
            processor,
            drives: read_drive_models(system),
            kernel: kernel_series(&release),
            labels,
        };
        let mut values = FactValues::default();
        values.add("kernel release", &release);
        add_settings(&mut values, system);
        add_idle_states(&mut values, system, &cpus);
        add_files(&mut values, system);
        let facts = values.into_facts();
        let figures = read_figures(system, &cpus);
        let mut hash = Sha256::new();
        hash.update(key.describe());
        for (name, fact) in &facts {
            hash.update(format!("{name}={fact}\n"));
        }
        for (name, figure) in &figures {
            hash.update(format!("{name}={figure}\n"));
        }
        for counters in ["proc/uptime", "proc/interrupts"] {
            hash.update(root.read_bytes(counters).unwrap_or_default());
        }
        Ok(Self {
            key,
            facts,
            figures,
            digest: hash.finalize().into(),
        })
    }
}

/// The series of a kernel release: `6.12` of `6.12.48+deb13-amd64`.
fn kernel_series(release: &str) -> String {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if !major.is_empty() && !minor.is_empty() => {
            format!("{major}.{minor}")
        }
        _ => "unknown".to_owned(),
    }
}

fn read_drive_models(system: &System) -> Vec<String> {
    let mut models: Vec<String> = system
        .nvme_controller_names()
        .iter()
        .map(|drive| {
            let path = format!("sys/class/nvme/{drive}/model");
            shorten(
                &system
                    .root()
                    .read_text_if_readable(&path)
                    .unwrap_or_default(),
            )
        })
        .collect();
    models.sort();
    models
}

/// Values of facts: several for facts about several CPUs or drives.
#[derive(Default)]
struct FactValues(BTreeMap<String, BTreeMap<String, usize>>);

impl FactValues {
    fn add(&mut self, name: &str, value: &str) {
        let values = self.0.entry(name.to_owned()).or_default();
        *values.entry(shorten(value)).or_default() += 1;
    }

    fn add_file(&mut self, root: &Root, name: &str, path: &str) {
        if let Some(value) = root.read_text_if_readable(path) {
            self.add(name, &value);
        }
    }

    /// The facts as text: a value, or the values with their numbers.
    fn into_facts(self) -> BTreeMap<String, String> {
        let facts = self.0.into_iter().map(|(name, values)| {
            let all: usize = values.values().sum();
            let text = if values.len() == 1 {
                values.into_keys().next().unwrap_or_default()
            } else {
                let parts: Vec<String> = values
                    .iter()
                    .map(|(value, count)| format!("{value} ({count} of {all})"))
                    .collect();
                shorten(&parts.join(", "))
            };
            (name, text)
        });
        facts.collect()
    }
}

fn shorten(text: &str) -> String {
    text.trim().chars().take(LONGEST_FACT).collect()
}

/// Adds each setting's value. Idle states have their own facts; numbers of interrupts change at each boot.
fn add_settings(values: &mut FactValues, system: &System) {
    for setting in SETTINGS {
        if matches!(
            setting.scope,
            SettingScope::IdleState | SettingScope::Interrupt
        ) {
            continue;
        }
        for place in system.places_in_scope(setting.scope) {
            let key = SettingKey::for_matching_scope(setting, place);
            let value = key.and_then(|key| system.read_setting(&key).ok());
            if let Some(value) = value {
                values.add(setting.name, &value);
            }
        }
    }
}

fn add_idle_states(values: &mut FactValues, system: &System, cpus: &[usize]) {
    for cpu in cpus {
        let states = system.read_idle_states(*cpu);
        let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
        values.add("idle states", &names.join(" "));
        for state in &states {
            let switch = if state.disabled { "off" } else { "on" };
            values.add(
                &format!("idle state {}", shorten(&state.name)),
                &format!("{switch}, exit {} us", state.latency_us),
            );
        }
    }
}

/// Adds further files about power and latency, beside wakepath's settings.
fn add_files(values: &mut FactValues, system: &System) {
    let root = system.root();
    for (name, path) in [
        ("CPUs online", "sys/devices/system/cpu/online"),
        ("SMT", "sys/devices/system/cpu/smt/active"),
        (
            "idle driver",
            "sys/devices/system/cpu/cpuidle/current_driver",
        ),
        (
            "clock source",
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        ("kernel command line", "proc/cmdline"),
    ] {
        values.add_file(root, name, path);
    }
    for policy in system.active_cpufreq_policies() {
        let folder = format!("{CPUS}/cpufreq/policy{policy}");
        values.add_file(
            root,
            "frequency driver",
            &format!("{folder}/scaling_driver"),
        );
        values.add_file(
            root,
            "highest frequency",
            &format!("{folder}/cpuinfo_max_freq"),
        );
    }
    for drive in system.nvme_controller_names() {
        let folder = format!("sys/class/nvme/{drive}");
        for (name, file) in [
            ("drive firmware", "firmware_rev"),
            ("drive state", "state"),
            ("drive link speed", "device/current_link_speed"),
            ("drive link width", "device/current_link_width"),
            ("drive quirks", "quirks"),
        ] {
            values.add_file(root, name, &format!("{folder}/{file}"));
        }
    }
    for disk in system.drive_block_devices() {
        for (name, file) in [
            ("I/O scheduler", "scheduler"),
            ("write cache", "write_cache"),
            ("write-back throttling", "wbt_lat_usec"),
        ] {
            values.add_file(root, name, &format!("sys/block/{disk}/queue/{file}"));
        }
    }
    for zone in root.list_names("sys/class/powercap") {
        let name = format!("power limit of {}", shorten(&zone));
        let path = format!("sys/class/powercap/{zone}/constraint_0_power_limit_uw");
        values.add_file(root, &name, &path);
    }
}

/// Counters of an idle state over all CPUs.
#[derive(Clone, Copy, Default)]
struct StateTotals {
    usage: u64,
    time_us: u64,
    above: u64,
    below: u64,
    rejected: u64,
}

/// Figures from the kernel's counters: time and wrong choices per idle state, and drive times.
fn read_figures(system: &System, cpus: &[usize]) -> BTreeMap<String, f64> {
    let mut totals: BTreeMap<String, StateTotals> = BTreeMap::new();
    for cpu in cpus {
        for count in system.read_idle_counts(*cpu) {
            let state = totals.entry(shorten(&count.state.name)).or_default();
            state.usage = state.usage.saturating_add(count.usage);
            state.time_us = state.time_us.saturating_add(count.time_us);
            state.above = state.above.saturating_add(count.above);
            state.below = state.below.saturating_add(count.below);
            state.rejected = state.rejected.saturating_add(count.rejected);
        }
    }
    let mut figures = BTreeMap::new();
    let uptime_us = read_uptime_s(system.root()) * 1e6 * cpus.len() as f64;
    for (name, state) in totals {
        if uptime_us > 0.0 {
            let share = state.time_us as f64 / uptime_us;
            figures.insert(format!("share of time in {name}"), share);
        }
        let attempts = state.usage.saturating_add(state.rejected);
        if attempts < FEWEST_EVENTS {
            continue;
        }
        for (what, count) in [
            ("too deep", state.above),
            ("too shallow", state.below),
            ("refused", state.rejected),
        ] {
            let share = count as f64 / attempts as f64;
            figures.insert(format!("share of {name} {what}"), share);
        }
    }
    for disk in system.drive_block_devices() {
        add_drive_times(&mut figures, system.root(), &disk);
    }
    figures.retain(|_, value| value.is_finite());
    figures
}

fn read_uptime_s(root: &Root) -> f64 {
    let text = root
        .read_text_if_readable("proc/uptime")
        .unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Mean times of a block device since boot, by `/sys/block/*/stat` (`Documentation/block/stat.rst`).
fn add_drive_times(figures: &mut BTreeMap<String, f64>, root: &Root, disk: &str) {
    let path = format!("sys/block/{disk}/stat");
    let text = root.read_text_if_readable(&path).unwrap_or_default();
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    for (what, count, milliseconds) in [("read", 0, 3), ("write", 4, 7)] {
        let (Some(requests), Some(ms)) = (numbers.get(count), numbers.get(milliseconds)) else {
            continue;
        };
        if *requests >= FEWEST_EVENTS {
            let us = *ms as f64 * 1e3 / *requests as f64;
            figures.insert(format!("mean us per {what} of {disk}"), us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_kernel_has_two_numbers() {
        assert_eq!(kernel_series("6.12.48+deb13-amd64"), "6.12");
        assert_eq!(kernel_series("7.0-rc1"), "7.0");
        for text in ["", "6", "generic"] {
            assert_eq!(kernel_series(text), "unknown", "{text}");
        }
    }

    #[test]
    fn the_same_processor_is_worth_more_than_all_else() {
        let here = ClassKey {
            processor: "x".to_owned(),
            drives: vec!["a".to_owned()],
            kernel: "6.12".to_owned(),
            labels: Vec::new(),
        };
        let other_processor = ClassKey {
            processor: "y".to_owned(),
            ..here.clone()
        };
        let other_kernel = ClassKey {
            kernel: "6.1".to_owned(),
            drives: Vec::new(),
            ..here.clone()
        };
        assert!(here.likeness(&other_kernel) > here.likeness(&other_processor));
        assert_eq!(here.likeness(&here), 15);
    }

    #[test]
    fn values_of_several_parts_are_counted() {
        let mut values = FactValues::default();
        for value in ["powersave", "powersave", "performance"] {
            values.add("governor", value);
        }
        assert_eq!(
            values.into_facts()["governor"],
            "performance (1 of 3), powersave (2 of 3)"
        );
    }
}
