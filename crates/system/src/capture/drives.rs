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
fn read_apst_and_tolerance_in_force(root: &Root, drive_name: &str) -> DriveInForce {
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
