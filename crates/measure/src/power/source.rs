//! Counters and sensors of power: RAPL domains, hwmon sensors and batteries.

use std::collections::BTreeSet;

use serde::Serialize;
use wakepath_system::Root;
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
}

/// A source of power. Sources overlap, and are never added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PowerSource {
    /// Name, such as `package-0`.
    pub name: String,
    /// Kind.
    pub kind: PowerSourceKind,
    #[serde(skip)]
    reading: Reading,
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
    /// All sources of a machine that tell a value.
    pub fn find_all(root: &Root) -> Vec<Self> {
        let mut found = find_rapl(root);
        found.extend(find_sensors(root));
        found.extend(find_batteries(root));
        found.retain(|source| source.read(root).is_some());
        found
    }

    /// The value now; `None` if it cannot be read any more.
    pub(super) fn read(&self, root: &Root) -> Option<PowerReading> {
        match &self.reading {
            Reading::Energy { path, .. } => root.number(path).map(PowerReading::Energy),
            Reading::Power { path } => root.number(path).map(PowerReading::Power),
            Reading::CurrentAndVoltage { current, voltage } => {
                let product = u128::from(root.number(current)?) * u128::from(root.number(voltage)?);
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

fn find_rapl(root: &Root) -> Vec<PowerSource> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    let mut zones = root.names(POWERCAP);
    zones.sort();
    for zone in zones.iter().filter(|zone| zone.contains(':')) {
        let directory = format!("{POWERCAP}/{zone}");
        let Some(name) = root.optional(&format!("{directory}/name")) else {
            continue;
        };
        let name = printable::one_line(name.trim()).into_owned();
        // The same package is there by MSR and by MMIO; domains inside of packages share their names.
        let is_inside = zone.matches(':').count() > 1;
        let name = if is_inside {
            format!("{name} ({zone})")
        } else {
            name
        };
        if names.insert(name.clone()) {
            found.push(PowerSource {
                name,
                kind: PowerSourceKind::Rapl,
                reading: Reading::Energy {
                    path: format!("{directory}/energy_uj"),
                    wraps_after: root
                        .number(&format!("{directory}/max_energy_range_uj"))
                        .unwrap_or(0),
                },
            });
        }
    }
    found
}

fn find_sensors(root: &Root) -> Vec<PowerSource> {
    let mut found = Vec::new();
    let mut chips = root.names(HWMON);
    chips.sort();
    for chip in &chips {
        let directory = format!("{HWMON}/{chip}");
        let told = root.optional(&format!("{directory}/name"));
        let name = told.unwrap_or_else(|| chip.clone());
        let mut files = root.names(&directory);
        files.sort();
        for file in files {
            let is_power = file.starts_with("power")
                && (file.ends_with("_average") || file.ends_with("_input"));
            if is_power {
                found.push(PowerSource {
                    name: printable::one_line(&format!("{} {file}", name.trim())).into_owned(),
                    kind: PowerSourceKind::Hwmon,
                    reading: Reading::Power {
                        path: format!("{directory}/{file}"),
                    },
                });
            }
        }
    }
    found
}

fn find_batteries(root: &Root) -> Vec<PowerSource> {
    let mut found = Vec::new();
    let mut supplies = root.names(BATTERIES);
    supplies.sort();
    for supply in &supplies {
        let directory = format!("{BATTERIES}/{supply}");
        let text = |file: &str| {
            let text = root.optional(&format!("{directory}/{file}"));
            text.map(|text| text.trim().to_owned())
        };
        let gives = text("type").as_deref() == Some("Battery")
            && text("status").as_deref() == Some("Discharging");
        if !gives {
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
            name: printable::one_line(supply).into_owned(),
            kind: PowerSourceKind::Battery,
            reading,
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
        let root = Root::at(at);
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
        };
        let power = |then, now| {
            source.milliwatts(PowerReading::Energy(then), PowerReading::Energy(now), 1.0)
        };
        assert_eq!(power(100, 600), Some(0.5));
        assert_eq!(power(900, 400), Some(0.5));
        assert_eq!(power(2000, 400), None);
    }
}
