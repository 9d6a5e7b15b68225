//! Which drive of a captured machine a disk belongs to.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::DriveModel;
use wakepath_system::System;

/// The captured drive of a disk: by its controller, or the stand-in where no controller was captured.
pub(super) fn find_drive_of_disk<'a>(
    machine: &'a mut Machine,
    system: &System,
    disk: &str,
) -> Option<&'a mut DriveModel> {
    let controller = system.controller_of_namespace(disk);
    let is_there = system.root().exists(&format!("sys/block/{disk}"));
    let drives = std::iter::once(&mut machine.drive).chain(&mut machine.other_drives);
    let mut same = drives.filter(|drive| drive.device == controller);
    same.next().filter(|_| is_there)
}
