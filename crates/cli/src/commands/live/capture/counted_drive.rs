//! Figures of drives from the counters that the kernel keeps since boot.

use wakepath_hardware::Machine;
use wakepath_measure::Conditions;
use wakepath_measure::drive::take_figures_since_boot;
use wakepath_system::System;

use super::drive_of_disk::find_drive_of_disk;

/// Takes coarse service times from the counters of all disks into the drives of a captured machine. Returns notes. A drive
/// with several disks, or the stand-in for drives that are not NVMe, takes those of its first disk.
pub(super) fn take_counted_figures(system: &System, machine: &mut Machine) -> Vec<String> {
    let kernel = system.read_kernel_release().unwrap_or_default();
    let conditions = Conditions::of_recording(kernel);
    let mut taken = Vec::new();
    let mut notes = Vec::new();
    for disk in system.drive_block_devices() {
        let Some(drive) = find_drive_of_disk(machine, system, &disk) else {
            continue;
        };
        if taken.contains(&drive.device) {
            continue;
        }
        taken.push(drive.device.clone());
        let mut counted = drive.clone();
        let of_disk = take_figures_since_boot(system.root(), &disk, &conditions, &mut counted);
        let before = std::mem::replace(drive, counted);
        // Counters of a stranger's capture may be any numbers.
        if machine.check().is_ok() {
            notes.extend(of_disk);
        } else if let Some(drive) = find_drive_of_disk(machine, system, &disk) {
            *drive = before;
        }
    }
    notes
}
