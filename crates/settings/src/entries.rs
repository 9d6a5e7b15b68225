//! Journal entries for the changes of a plan.

use wakepath_system::journal::Entry;
use wakepath_system::{At, DriveIdentity, System};

use crate::{Change, SettingsPlan};

/// The journal's entries for a plan, also for settings that the kernel changes along with a planned one.
pub(crate) fn journal_entries_for_plan(system: &System, plan: &SettingsPlan) -> Vec<Entry> {
    let changes = plan.changes.iter();
    changes
        .filter(|change| change.differs() || may_kernel_change_along(plan, change))
        .map(|change| journal_entry_for_change(system, change))
        .collect()
}

/// Whether the kernel may change a setting because the plan changes another one of the same CPU or drive.
fn may_kernel_change_along(plan: &SettingsPlan, change: &Change) -> bool {
    plan.differing_changes()
        .any(|cause| cause.changes_along(&change.key))
}

/// The journal's entry for a change.
pub(crate) fn journal_entry_for_change(system: &System, change: &Change) -> Entry {
    Entry {
        key: change.key.clone(),
        old: change.old.clone(),
        new: change.new.clone(),
        written: Vec::new(),
        drive: drive_model_and_serial(system, &change.key.at),
    }
}

/// Model and serial number of a drive, as entries have them. `None` for anything but an NVMe drive and its disks, and without a model.
pub(crate) fn drive_model_and_serial(system: &System, at: &At) -> Option<String> {
    let name = match at {
        At::Drive(name) => name.clone(),
        At::Disk(disk) => system.controller_of_namespace(disk)?,
        _ => return None,
    };
    let identity = DriveIdentity::read(system.root(), &name);
    identity.has_model().then(|| identity.to_string())
}
