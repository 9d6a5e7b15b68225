//! What a calibration was measured on, and which of its figures are stale elsewhere.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{CalibratedOn, DriveModel, Origin};
use wakepath_measure::Conditions;
use wakepath_measure::drive::BackingDevice;
use wakepath_system::System;
use wakepath_system::capture::drives::read_apst_and_tolerance_in_force;
use wakepath_system::capture::running::RunningPolicies;
use wakepath_units::printable;

/// A measured or fitted figure from another state of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFigure {
    /// Key of the figure in the machine file.
    pub key: String,
    /// What has changed since, such as "kernel 6.12.48, now 6.18.1".
    pub changes: Vec<String>,
}

/// Describes the running machine as a calibration's figures depend on it.
pub fn describe_calibrated(
    system: &System,
    disk: Option<&BackingDevice>,
    conditions: &Conditions,
) -> CalibratedOn {
    CalibratedOn {
        date: conditions.date.clone(),
        kernel: conditions.kernel.clone(),
        cpus: system.cpus().len(),
        processor: cpuinfo_value(system, "model name"),
        microcode: cpuinfo_value(system, "microcode"),
        firmware: read_text(system, "sys/class/dmi/id/bios_version"),
        disk: disk.map(|device| device.disk.clone()),
        drive: disk.and_then(|device| describe_drive(system, &device.disk)),
    }
}

/// Ending of a disk's description that is its size.
const BYTES: &str = " bytes";

/// Model, serial number and firmware of a disk, or its size where it names no model; `None` if it has gone.
fn describe_drive(system: &System, disk: &str) -> Option<String> {
    let device = format!("sys/block/{disk}/device");
    let files = ["model", "serial", "firmware_rev", "rev"];
    let named: Vec<String> = files
        .iter()
        .filter_map(|file| read_text(system, &format!("{device}/{file}")))
        .collect();
    if named.is_empty() {
        let sectors = system
            .root()
            .read_number_if_readable(&format!("sys/block/{disk}/size"))?;
        return Some(format!("{}{BYTES}", sectors.saturating_mul(512)));
    }
    Some(named.join(" "))
}

/// A value of the first processor in `/proc/cpuinfo`.
fn cpuinfo_value(system: &System, key: &str) -> Option<String> {
    let text = system.root().read_text_if_readable("proc/cpuinfo")?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    });
    value.filter(|value| !value.is_empty())
}

fn read_text(system: &System, path: &str) -> Option<String> {
    let text = system.root().read_text_if_readable(path)?;
    let line = printable::escape_for_one_line(text.trim()).into_owned();
    (!line.is_empty()).then_some(line)
}

/// Measured and fitted figures of a calibrated machine that are from another state than the running machine's. None where
/// nothing has changed, or where the machine was not calibrated.
pub fn find_stale_figures(machine: &Machine, system: &System) -> Vec<StaleFigure> {
    let Some(then) = &machine.calibrated_on else {
        return Vec::new();
    };
    let changes = Changes::find(then, system);
    let figures = machine.figures().into_iter();
    let found = figures.filter(|figure| {
        matches!(
            figure.figure.origin,
            Origin::Measured(_) | Origin::Fitted(_)
        )
    });
    found
        .filter_map(|figure| {
            let changes = changes.for_key(&figure.key);
            (!changes.is_empty()).then(|| StaleFigure {
                key: figure.key.clone(),
                changes,
            })
        })
        .collect()
}

/// Gives a machine that was calibrated on this processor the governors that are in force now, and says which were in force
/// then. `None` where nothing differs, or where the present ones cannot be read.
pub fn take_policies_in_force_now(machine: &mut Machine, system: &System) -> Option<String> {
    let then = machine.calibrated_on.as_ref()?;
    if then.processor != cpuinfo_value(system, "model name") {
        return None;
    }
    take_drive_settings_in_force_now(&mut machine.drive, system);
    let now = RunningPolicies::read(system, machine)
        .ok()?
        .to_machine_file_text();
    let before = machine.runs.replace(now.clone());
    let changed = before.filter(|before| *before != now)?;
    Some(format!(
        "{now} is in force, {changed} was at the calibration"
    ))
}

/// Gives a drive the power-management settings that its controller has now, where they can be read.
fn take_drive_settings_in_force_now(drive: &mut DriveModel, system: &System) {
    if let (Some(device), Some(_)) = (&drive.device, &drive.in_force) {
        let now = read_apst_and_tolerance_in_force(system.root(), device);
        if now.apst.is_some() {
            drive.in_force = Some(now);
        }
    }
}

/// Differences between the calibrated and the running machine.
struct Changes {
    /// These concern every figure.
    kernel: Option<String>,
    /// These concern all but the drive's.
    processor: Vec<String>,
    /// These concern the drive's.
    drive: Option<String>,
}

impl Changes {
    fn find(then: &CalibratedOn, system: &System) -> Self {
        let kernel = system.read_kernel_release();
        let processor = [
            describe_change(
                "processor",
                then.processor.clone(),
                cpuinfo_value(system, "model name"),
            ),
            describe_change(
                "microcode",
                then.microcode.clone(),
                cpuinfo_value(system, "microcode"),
            ),
            describe_change(
                "firmware",
                then.firmware.clone(),
                read_text(system, "sys/class/dmi/id/bios_version"),
            ),
            describe_change(
                "CPUs",
                Some(then.cpus.to_string()),
                Some(system.cpus().len().to_string()),
            ),
        ];
        let drive = then.disk.as_ref().and_then(|disk| {
            let now =
                describe_drive(system, disk).unwrap_or_else(|| format!("{disk} is not there"));
            // A captured machine has the disk's size only, and no model.
            let is_known =
                !now.ends_with(BYTES) || then.drive.as_ref().is_some_and(|d| d.ends_with(BYTES));
            describe_change("drive", then.drive.clone(), is_known.then_some(now))
        });
        Self {
            kernel: describe_change("kernel", Some(then.kernel.clone()), kernel),
            processor: processor.into_iter().flatten().collect(),
            drive,
        }
    }

    /// The changes that concern a figure.
    fn for_key(&self, key: &str) -> Vec<String> {
        let is_of_drive = key.starts_with("drive.");
        let of_processor: &[String] = if is_of_drive { &[] } else { &self.processor };
        let of_drive = self.drive.as_ref().filter(|_| is_of_drive);
        self.kernel
            .iter()
            .chain(of_processor)
            .chain(of_drive)
            .cloned()
            .collect()
    }
}

/// "WHAT THEN, now NOW" for values that are known and differ.
fn describe_change(what: &str, then: Option<String>, now: Option<String>) -> Option<String> {
    let (then, now) = (then?, now?);
    (then != now).then(|| format!("{what} {then}, now {now}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wakepath_hardware::machine::{Figure, Measurement};
    use wakepath_system::Root;

    use super::*;

    fn write(root: &std::path::Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn measured(value: f64) -> Figure {
        let measurement = Measurement {
            n: 9,
            low: Some(value),
            high: Some(value),
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            what: "mean".to_owned(),
        };
        Figure::measured_here(value, measurement)
    }

    /// A machine below a directory, and a description that was calibrated on it.
    fn calibrated() -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write(root, "proc/sys/kernel/osrelease", "6.12.48\n");
        write(root, "proc/cpuinfo", "model name\t: A\nmicrocode\t: 0x1\n");
        write(root, "sys/devices/system/cpu/online", "0-1\n");
        write(root, "sys/block/nvme0n1/device/model", "Fast\n");
        let system = System::new(Root::at_directory(root));
        let disk = BackingDevice {
            disk: "nvme0n1".to_owned(),
            model: None,
        };
        let conditions = Conditions {
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            busy_percent: None,
            stolen_percent: None,
        };
        let mut machine = Machine::find("laptop").unwrap();
        machine.drive.read_service_us = measured(80.0);
        machine.idle_state[1].true_exit_us = measured(3.0);
        machine.calibrated_on = Some(describe_calibrated(&system, Some(&disk), &conditions));
        (directory, machine)
    }

    fn stale(directory: &std::path::Path, machine: &Machine) -> Vec<(String, String)> {
        let system = System::new(Root::at_directory(directory));
        let figures = find_stale_figures(machine, &system).into_iter();
        figures
            .filter(|figure| {
                figure.key.contains("true_exit_us") || figure.key == "drive.read_service_us"
            })
            .map(|figure| (figure.key, figure.changes.join("; ")))
            .collect()
    }

    #[test]
    fn nothing_is_stale_on_the_machine_itself() {
        let (directory, machine) = calibrated();
        assert_eq!(stale(directory.path(), &machine), []);
    }

    #[test]
    fn another_drive_concerns_figures_of_the_drive_alone() {
        let (directory, machine) = calibrated();
        write(directory.path(), "sys/block/nvme0n1/device/model", "Slow\n");
        let found = stale(directory.path(), &machine);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "drive.read_service_us");
        assert_eq!(found[0].1, "drive Fast, now Slow");
        fs::remove_dir_all(directory.path().join("sys/block")).unwrap();
        assert!(
            stale(directory.path(), &machine)[0]
                .1
                .contains("nvme0n1 is not there")
        );
    }

    #[test]
    fn a_disk_without_model_in_a_capture_is_not_compared() {
        let (directory, machine) = calibrated();
        fs::remove_dir_all(directory.path().join("sys/block")).unwrap();
        write(directory.path(), "sys/block/nvme0n1/size", "2048\n");
        assert_eq!(stale(directory.path(), &machine), []);
    }

    #[test]
    fn new_microcode_concerns_figures_of_the_processor_alone() {
        let (directory, machine) = calibrated();
        write(
            directory.path(),
            "proc/cpuinfo",
            "model name\t: A\nmicrocode\t: 0x2\n",
        );
        let found = stale(directory.path(), &machine);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1, "microcode 0x1, now 0x2");
    }

    #[test]
    fn another_kernel_concerns_every_figure() {
        let (directory, machine) = calibrated();
        write(directory.path(), "proc/sys/kernel/osrelease", "6.18.1\n");
        let found = stale(directory.path(), &machine);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found
                .iter()
                .all(|(_, why)| why == "kernel 6.12.48, now 6.18.1")
        );
    }

    #[test]
    fn a_machine_has_the_governors_of_today() {
        let (directory, mut machine) = calibrated();
        let system = System::new(Root::at_directory(directory.path()));
        let governor = "sys/devices/system/cpu/cpuidle/current_governor";
        write(directory.path(), governor, "menu\n");
        machine.runs = Some("menu".to_owned());
        assert_eq!(take_policies_in_force_now(&mut machine, &system), None);
        write(directory.path(), governor, "teo\n");
        assert_eq!(
            take_policies_in_force_now(&mut machine, &system).as_deref(),
            Some("teo is in force, menu was at the calibration")
        );
        assert_eq!(machine.runs.as_deref(), Some("teo"));
        write(directory.path(), "proc/cpuinfo", "model name\t: B\n");
        write(directory.path(), governor, "ladder\n");
        assert_eq!(take_policies_in_force_now(&mut machine, &system), None);
        assert_eq!(machine.runs.as_deref(), Some("teo"));
    }
}
