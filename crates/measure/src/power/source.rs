//! Counters and sensors of power: RAPL domains, hwmon sensors and batteries.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wakepath_system::{Root, nvme};
use wakepath_units::printable;

const POWERCAP: &str = "sys/class/powercap";
const HWMON: &str = "sys/class/hwmon";
const BATTERIES: &str = "sys/class/power_supply";

/// What a source of power counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerSourceKind {
    /// A domain of the processor's energy counters (`Documentation/power/powercap/powercap.rst`).
    Rapl,
    /// A sensor (`Documentation/hwmon/sysfs-interface.rst`).
    Hwmon,
    /// What a battery gives (`Documentation/ABI/testing/sysfs-class-power`).
    Battery,
    /// An NVMe drive's own measurement; asking may wake a sleeping drive.
    Nvme,
}

/// A source of power. Sources overlap, and are never added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PowerSource {
    /// Name, such as `package-0`; no two sources share one.
    pub name: String,
    /// Kind.
    pub kind: PowerSourceKind,
    #[serde(skip)]
    reading: Reading,
    /// File that says whether a battery discharges: what it tells on mains is the power of charging.
    #[serde(skip)]
    status: Option<String>,
}

/// How a source is read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reading {
    /// Energy in uJ that wraps after a maximum.
    Energy { path: String, wraps_after: u64 },
    /// Power in uW.
    Power { path: String },
    /// Current in uA and voltage in uV.
    CurrentAndVoltage { current: String, voltage: String },
    /// An NVMe drive's log, by controller.
    Drive { controller: String },
}

/// A value of a source at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PowerReading {
    /// Energy so far in uJ.
    Energy(u64),
    /// Power now in uW.
    Power(u64),
}

impl PowerSource {
    /// All sources with a value but for drives: asking could wake a drive.
    pub fn find_all(root: &Root) -> Vec<Self> {
        let mut found = find_rapl(root);
        let mut others = find_sensors(root);
        others.extend(find_batteries(root));
        others.retain(|source| source.read(root).is_some());
        found.extend(others);
        found
    }

    /// All sources with a value, also drives with a power measurement.
    pub fn find_all_with_drives(root: &Root) -> Vec<Self> {
        let drives = root.list_names("sys/class/nvme").into_iter();
        let asked = drives.map(|controller| Self {
            name: format!("drive {}", printable::escape_for_one_line(&controller)),
            kind: PowerSourceKind::Nvme,
            reading: Reading::Drive { controller },
            status: None,
        });
        let mut found = Self::find_all(root);
        found.extend(asked.filter(|source| source.read(root).is_some()));
        found
    }

    /// A counter of energy by name and path below the root; the counter wraps after so many uJ, or never after 0.
    pub fn energy_counter(name: &str, path: &str, wraps_after: u64) -> Self {
        Self {
            name: name.to_owned(),
            kind: PowerSourceKind::Rapl,
            reading: Reading::Energy {
                path: path.to_owned(),
                wraps_after,
            },
            status: None,
        }
    }

    /// Whether it counts a whole processor package, which overlaps with no other package.
    pub(super) fn is_package(&self) -> bool {
        self.kind == PowerSourceKind::Rapl && self.name.starts_with("package-")
    }

    /// Whether it counts the whole machine: the platform's domain, or a battery.
    pub(super) fn is_whole_machine(&self) -> bool {
        let is_platform = self.kind == PowerSourceKind::Rapl && self.name.starts_with("psys");
        is_platform || self.kind == PowerSourceKind::Battery
    }

    /// The value now; `None` if it cannot be read any more, or if the battery does not discharge.
    pub(super) fn read(&self, root: &Root) -> Option<PowerReading> {
        if self
            .status
            .as_ref()
            .is_some_and(|path| !is_discharging(root, path))
        {
            return None;
        }
        match &self.reading {
            Reading::Energy { path, .. } => {
                root.read_number_if_readable(path).map(PowerReading::Energy)
            }
            Reading::Power { path } => root.read_number_if_readable(path).map(PowerReading::Power),
            Reading::Drive { controller } => {
                nvme::read_interval_power_uw(root, controller).map(PowerReading::Power)
            }
            Reading::CurrentAndVoltage { current, voltage } => {
                let product = u128::from(root.read_number_if_readable(current)?)
                    * u128::from(root.read_number_if_readable(voltage)?);
                u64::try_from(product / 1_000_000)
                    .ok()
                    .map(PowerReading::Power)
            }
        }
    }

    /// Mean power in mW between two readings; `None` if they are of different kinds, or a counter was set back.
    pub(super) fn milliwatts(
        &self,
        before: PowerReading,
        after: PowerReading,
        seconds: f64,
    ) -> Option<f64> {
        match (before, after) {
            (PowerReading::Energy(then), PowerReading::Energy(now)) => {
                let wraps_after = match self.reading {
                    Reading::Energy { wraps_after, .. } => wraps_after,
                    _ => 0,
                };
                let spent = match now.checked_sub(then) {
                    Some(spent) => spent,
                    None if wraps_after >= then => wraps_after - then + now,
                    None => return None,
                };
                (seconds > 0.0).then(|| spent as f64 / seconds / 1e3)
            }
            (PowerReading::Power(then), PowerReading::Power(now)) => {
                Some(f64::midpoint(then as f64, now as f64) / 1e3)
            }
            _ => None,
        }
    }
}

fn is_discharging(root: &Root, status: &str) -> bool {
    let text = root.read_text_if_readable(status);
    text.is_some_and(|text| text.trim() == "Discharging")
}

/// RAPL domains that can be read.
fn find_rapl(root: &Root) -> Vec<PowerSource> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    let mut zones = root.list_names(POWERCAP);
    // By MSR before by MMIO.
    zones.sort_by_key(|zone| (zone.contains("mmio"), zone.clone()));
    for zone in zones.iter().filter(|zone| zone.contains(':')) {
        let directory = format!("{POWERCAP}/{zone}");
        let Some(name) = root.read_text_if_readable(&format!("{directory}/name")) else {
            continue;
        };
        let name = printable::escape_for_one_line(name.trim()).into_owned();
        // The same package is there by MSR and by MMIO; domains inside of packages share their names.
        let is_inside = zone.matches(':').count() > 1;
        let name = if is_inside {
            format!("{name} ({zone})")
        } else {
            name
        };
        let range = root.read_number_if_readable(&format!("{directory}/max_energy_range_uj"));
        let counter = format!("{directory}/energy_uj");
        let source = PowerSource::energy_counter(&name, &counter, range.unwrap_or(0));
        if source.read(root).is_some() && names.insert(source.name.clone()) {
            found.push(source);
        }
    }
    found
}

fn find_sensors(root: &Root) -> Vec<PowerSource> {
    let mut found = Vec::new();
    let mut chips = root.list_names(HWMON);
    chips.sort();
    let chip_names: Vec<String> = chips.iter().map(|chip| name_chip(root, chip)).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &chip_names {
        *uses.entry(name).or_default() += 1;
    }
    for (chip, chip_name) in chips.iter().zip(&chip_names) {
        let directory = format!("{HWMON}/{chip}");
        let name = if uses[chip_name.as_str()] > 1 {
            format!("{chip_name} {chip}")
        } else {
            chip_name.clone()
        };
        let mut files = root.list_names(&directory);
        files.sort();
        for file in files {
            let is_power = file.starts_with("power")
                && (file.ends_with("_average") || file.ends_with("_input"));
            if is_power {
                found.push(PowerSource {
                    name: printable::escape_for_one_line(&format!("{name} {file}")).into_owned(),
                    kind: PowerSourceKind::Hwmon,
                    reading: Reading::Power {
                        path: format!("{directory}/{file}"),
                    },
                    status: None,
                });
            }
        }
    }
    found
}

/// What a chip calls itself; its directory's name where it says nothing.
fn name_chip(root: &Root, chip: &str) -> String {
    let told = root.read_text_if_readable(&format!("{HWMON}/{chip}/name"));
    told.map_or_else(|| chip.to_owned(), |name| name.trim().to_owned())
}

fn find_batteries(root: &Root) -> Vec<PowerSource> {
    let mut found = Vec::new();
    let mut supplies = root.list_names(BATTERIES);
    supplies.sort();
    for supply in &supplies {
        let directory = format!("{BATTERIES}/{supply}");
        let kind = root.read_text_if_readable(&format!("{directory}/type"));
        if kind.is_none_or(|kind| kind.trim() != "Battery") {
            continue;
        }
        let reading = if root.exists(&format!("{directory}/power_now")) {
            Reading::Power {
                path: format!("{directory}/power_now"),
            }
        } else {
            Reading::CurrentAndVoltage {
                current: format!("{directory}/current_now"),
                voltage: format!("{directory}/voltage_now"),
            }
        };
        found.push(PowerSource {
            name: printable::escape_for_one_line(supply).into_owned(),
            kind: PowerSourceKind::Battery,
            reading,
            status: Some(format!("{directory}/status")),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn packages_sensors_and_batteries_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        for (zone, name) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl-mmio:0", "package-0"),
        ] {
            write(at, &format!("{POWERCAP}/{zone}/name"), name);
            write(at, &format!("{POWERCAP}/{zone}/energy_uj"), "5");
            write(at, &format!("{POWERCAP}/{zone}/max_energy_range_uj"), "100");
        }
        write(at, &format!("{HWMON}/hwmon0/name"), "amdgpu");
        write(at, &format!("{HWMON}/hwmon0/power1_average"), "2000");
        write(at, &format!("{BATTERIES}/AC/type"), "Mains");
        for (file, text) in [
            ("type", "Battery"),
            ("status", "Discharging"),
            ("current_now", "2000000"),
            ("voltage_now", "3000000"),
        ] {
            write(at, &format!("{BATTERIES}/BAT0/{file}"), text);
        }
        let root = Root::at_directory(at);
        let found = PowerSource::find_all(&root);
        let names: Vec<&str> = found.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "package-0",
                "core (intel-rapl:0:0)",
                "amdgpu power1_average",
                "BAT0"
            ]
        );
        assert_eq!(found[3].read(&root), Some(PowerReading::Power(6_000_000)));
        write(at, &format!("{BATTERIES}/BAT0/status"), "Charging");
        assert_eq!(found[3].read(&root), None);
    }

    /// The power of a drive with this field in its SMART log.
    fn read_drive_power(at: &Path, field: u32) -> Option<PowerReading> {
        let mut log = vec![0xff; 512];
        log[240..244].copy_from_slice(&field.to_le_bytes());
        fs::write(at.join("dev/nvme0.log-02"), log).unwrap();
        let root = Root::at_directory(at);
        let found = PowerSource::find_all_with_drives(&root);
        found.first()?.read(&root)
    }

    #[test]
    fn drives_that_measure_their_power_are_asked_by_their_log() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        write(at, "sys/class/nvme/nvme0/model", "Fast\n");
        fs::create_dir(at.join("dev")).unwrap();
        // 525 times 10 mW (scale 2), and 52,500 times 0.1 mW (scale 1); the type in higher bits does not matter.
        let watts = Some(PowerReading::Power(5_250_000));
        assert_eq!(read_drive_power(at, 0x52_020d), watts);
        assert_eq!(read_drive_power(at, 0x01_cd14), watts);
        let root = Root::at_directory(at);
        assert!(PowerSource::find_all(&root).is_empty());
        let found = PowerSource::find_all_with_drives(&root);
        assert_eq!(found[0].name, "drive nvme0");
        // Not reported, and a reserved scale.
        for field in [0x020d, 0x03_020d] {
            assert_eq!(read_drive_power(at, field), None);
        }
        fs::write(at.join("dev/nvme0.log-02"), [0; 100]).unwrap();
        assert_eq!(found[0].read(&root), None);
    }

    fn name_all(at: &Path) -> Vec<String> {
        let found = PowerSource::find_all(&Root::at_directory(at));
        found.into_iter().map(|source| source.name).collect()
    }

    #[test]
    fn chips_of_one_name_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        for chip in ["hwmon0", "hwmon3"] {
            write(
                directory.path(),
                &format!("{HWMON}/{chip}/name"),
                "ina226\n",
            );
            write(
                directory.path(),
                &format!("{HWMON}/{chip}/power1_input"),
                "5",
            );
        }
        let names = name_all(directory.path());
        assert_eq!(
            names,
            ["ina226 hwmon0 power1_input", "ina226 hwmon3 power1_input"]
        );
    }

    #[test]
    fn a_domain_without_a_counter_hides_no_other_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        for zone in ["intel-rapl-mmio:0", "intel-rapl:0"] {
            write(
                directory.path(),
                &format!("{POWERCAP}/{zone}/name"),
                "package-0",
            );
        }
        let mmio = format!("{POWERCAP}/intel-rapl-mmio:0/energy_uj");
        write(directory.path(), &mmio, "5");
        assert_eq!(name_all(directory.path()), ["package-0"]);
        write(
            directory.path(),
            &format!("{POWERCAP}/intel-rapl:0/energy_uj"),
            "7",
        );
        let found = PowerSource::find_all(&Root::at_directory(directory.path()));
        let energy = found[0].read(&Root::at_directory(directory.path()));
        assert_eq!((found.len(), energy), (1, Some(PowerReading::Energy(7))));
    }

    #[test]
    fn counters_that_wrap_count_on() {
        let source = PowerSource {
            name: "package-0".to_owned(),
            kind: PowerSourceKind::Rapl,
            reading: Reading::Energy {
                path: String::new(),
                wraps_after: 1000,
            },
            status: None,
        };
        let power = |then, now| {
            source.milliwatts(PowerReading::Energy(then), PowerReading::Energy(now), 1.0)
        };
        assert_eq!(power(100, 600), Some(0.5));
        assert_eq!(power(900, 400), Some(0.5));
        assert_eq!(power(2000, 400), None);
    }
}
