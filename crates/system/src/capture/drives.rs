//! Drives of a captured machine, with what the kernel and its block layer have in force for them.

use std::io::ErrorKind;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveInForce, DriveModel, Figure, Transition};

use crate::nvme::ApstFeature;
use crate::{Root, System, nvme};

/// Gives a machine's I/O path the hardware queues of a disk, if the block layer tells their number.
pub fn set_completion_queues_from_disk(system: &System, disk: &str, machine: &mut Machine) {
    let queues = system
        .root()
        .list_entry_numbers(&format!("sys/block/{disk}/mq"), "")
        .len();
    if (1..65_536).contains(&queues) {
        machine.io_path.completion.queues = Some(queues);
        machine.io_path.completion.assumed = format!(
            "{queues} hardware queue(s), as the block layer says; each completes on its own CPUs"
        );
    }
}

/// Sets the machine's drives with their power states, and the queues of the first drive.
pub(super) fn set_drives_and_queues(
    system: &System,
    machine: &mut Machine,
    notes: &mut Vec<String>,
) {
    let root = system.root();
    let disk = system.drive_block_devices().into_iter().next();
    if let Some(disk) = &disk {
        set_completion_queues_from_disk(system, disk, machine);
    }
    let names = system.nvme_controller_names();
    let has_controllers = !names.is_empty();
    if !has_controllers {
        notes.push("no NVMe controller; a typical drive stands in its place".to_owned());
    }
    let mut known = Vec::new();
    for name in names {
        match nvme::identify_drive(root, &name) {
            Ok(drive) => known.push(DriveModel {
                source: format!("Identify Controller of {name}"),
                in_force: Some(read_apst_and_tolerance_in_force(root, &name)),
                device: Some(name),
                ..DriveModel::from_declared_drive(&drive)
            }),
            Err(e) if e.kind() == ErrorKind::NotFound => notes.push(format!(
                "{name} cannot be identified: there is no {} (only root can read what goes there)",
                nvme::captured_identity_path(&name)
            )),
            Err(e) => notes.push(format!("{name} cannot be identified: {e}")),
        }
    }
    if known.is_empty() && has_controllers {
        notes.push("a typical drive stands in for the one that cannot be identified".to_owned());
    }
    let mut drives = known.into_iter();
    if let Some(first) = drives.next() {
        machine.drive = first;
    }
    machine.other_drives = drives.collect();
    if let Some(disk) = &disk {
        set_read_ahead_and_polled_queues(root, disk, machine);
    }
    set_sizes_of_drives(system, machine);
}

/// Bytes of a sector in the block layer's sizes, whatever the drive's own.
const SECTOR_BYTES: u64 = 512;

/// Sets the size of each drive: that of its first namespace, or of the first disk if the machine has no NVMe drive.
fn set_sizes_of_drives(system: &System, machine: &mut Machine) {
    let disks = system.drive_block_devices();
    let drives = std::iter::once(&mut machine.drive).chain(&mut machine.other_drives);
    for drive in drives {
        let mut own = disks.iter().filter(|disk| match &drive.device {
            Some(name) => system.controller_of_namespace(disk).as_ref() == Some(name),
            None => true,
        });
        let Some(disk) = own.next() else { continue };
        let path = format!("sys/block/{disk}/size");
        if let Some(sectors) = system.root().read_number_if_readable(&path) {
            drive.set_capacity_read_from(sectors.saturating_mul(SECTOR_BYTES), &path);
        }
    }
}

/// Sets how far the kernel reads ahead on the machine's drive, and how many of its queues are polled.
fn set_read_ahead_and_polled_queues(root: &Root, disk: &str, machine: &mut Machine) {
    let path = format!("sys/block/{disk}/queue/read_ahead_kb");
    if let Some(kib) = root.read_number_if_readable(&path) {
        machine.drive.read_ahead_kb = Figure::with_own_source(kib as f64, path);
    }
    let polls = root.read_number_if_readable(&format!("sys/block/{disk}/queue/io_poll"));
    let asked = root.read_number_if_readable("sys/module/nvme/parameters/poll_queues");
    machine.io_path.completion.poll_queues = match (polls, asked) {
        // The driver may give fewer than it is asked for, but then the queue tells that it polls.
        (Some(1), Some(queues @ 1..=65_535)) if disk.starts_with("nvme") => Some(queues as usize),
        _ => None,
    };
}

/// Reads the power-management settings that a drive has now.
pub fn read_apst_and_tolerance_in_force(root: &Root, drive_name: &str) -> DriveInForce {
    let feature =
        ApstFeature::read_from_drive(&*nvme::open_drive_or_capture(root, drive_name)).ok();
    let transitions = feature.iter().flat_map(|feature| feature.table.entries());
    DriveInForce {
        latency_tolerance_us: nvme::read_latency_tolerance(root, drive_name),
        apst: feature.map(|feature| feature.enabled),
        table: transitions
            .filter(|entry| entry.timeout_ms > 0)
            .map(|entry| Transition {
                from: entry.state,
                to: entry.target,
                idle_ms: entry.timeout_ms,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine, and how its drives are captured from these files.
    fn captured_from(files: &[(&str, &str)]) -> Machine {
        let tree = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let file = tree.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let system = System::new(Root::at_directory(tree.path()));
        let mut machine = Machine::find("laptop").unwrap();
        machine.drive.device = Some("nvme0".to_owned());
        let mut other = machine.drive.clone();
        other.device = Some("nvme1".to_owned());
        machine.other_drives = vec![other];
        let disk = system.drive_block_devices().into_iter().next().unwrap();
        set_read_ahead_and_polled_queues(system.root(), &disk, &mut machine);
        set_sizes_of_drives(&system, &mut machine);
        machine
    }

    #[test]
    fn read_ahead_and_polled_queues_are_those_of_the_disk() {
        let read_ahead = ("sys/block/nvme0n1/queue/read_ahead_kb", "4096\n");
        let queues = ("sys/module/nvme/parameters/poll_queues", "3\n");
        let polled = captured_from(&[
            read_ahead,
            queues,
            ("sys/block/nvme0n1/queue/io_poll", "1\n"),
        ]);
        assert_eq!(polled.drive.read_ahead_bytes(), 4096 << 10);
        let source = polled.drive.read_ahead_kb.origin.describe_origin("");
        assert_eq!(source, "sys/block/nvme0n1/queue/read_ahead_kb");
        assert_eq!(polled.io_path.completion.poll_queues, Some(3));
        // The driver was asked for queues that poll, and has none.
        let asked = captured_from(&[queues, ("sys/block/nvme0n1/queue/io_poll", "0\n")]);
        assert_eq!(asked.io_path.completion.poll_queues, None);
        assert!(!asked.drive.read_ahead_kb.is_given());
    }

    #[test]
    fn each_drive_has_the_size_of_its_own_disk() {
        let machine = captured_from(&[
            ("sys/class/nvme/nvme0/state", "live\n"),
            ("sys/class/nvme/nvme1/state", "live\n"),
            ("sys/block/nvme0n1/size", "500118192\n"),
            ("sys/block/nvme1n1/size", "1953525168\n"),
        ]);
        assert_eq!(machine.drive.capacity_in_bytes(), 256_060_514_304);
        let other = &machine.other_drives[0];
        assert_eq!(other.capacity_in_bytes(), 1_000_204_886_016);
        let source = other.capacity_gb.origin.describe_origin("");
        assert_eq!(source, "sys/block/nvme1n1/size");
        // A disk that is being taken away says 0.
        let gone = captured_from(&[("sys/block/nvme0n1/size", "0\n")]);
        assert!(!gone.drive.capacity_gb.is_given());
    }
}
