//! The power state table (APST) that the kernel itself gives a drive, for the drive's latency tolerance.
//!
//! The kernel programs a drive's table anew whenever the tolerance changes (`nvme_set_latency_tolerance()`,
//! `drivers/nvme/host/core.c`, Linux 6.12). A boot with a policy set that has a tolerance, and no table, ends with that table.

use wakepath_system::apst::predict_kernel_apst_feature;
use wakepath_system::journal::Entry;
use wakepath_system::setting::{Access, have_same_meaning};
use wakepath_system::{SettingKey, System};

use crate::{Change, SettingsPlan};

/// The table that the kernel gives a drive for the present latency tolerance; `None` for other settings, and where the kernel
/// sets no table.
pub(crate) fn predict_table_by_kernel(system: &System, key: &SettingKey) -> Option<String> {
    if !is_drive_table(key) {
        return None;
    }
    let drive_name = key.at.to_string();
    let drive = system.identify_drive(&drive_name).ok()?;
    let feature = predict_kernel_apst_feature(system.root(), &drive_name, &drive)?;
    Some(feature.to_string())
}

/// Whether a drive has the kernel's own table for the present latency tolerance. The boot's own table is another one if
/// a policy set has changed the tolerance, too.
pub(crate) fn is_table_by_kernel(system: &System, key: &SettingKey, found: &str) -> bool {
    predict_table_by_kernel(system, key)
        .is_some_and(|table| have_same_meaning(key.setting, &table, found))
}

/// Whether a plan leaves a drive's table to the kernel: the plan changes the drive's tolerance, and has no table for the drive.
/// An old table, written after the tolerance, would replace the one that a boot with the plan has.
pub(crate) fn is_table_left_to_kernel(plan: &SettingsPlan, key: &SettingKey) -> bool {
    is_drive_table(key)
        && !plan.has_new_value_for_setting(key)
        && plan
            .differing_changes()
            .any(|change| change.changes_along(key))
}

/// The table that a boot with the plan would have, where the drive has the plan's tolerance already, so that the kernel programs
/// nothing. `None`: the plan has no tolerance for the drive, or the tolerance of this boot's beginning. `oldest`: this boot's own
/// values.
pub(crate) fn find_table_for_kept_tolerance(
    system: &System,
    plan: &SettingsPlan,
    oldest: &[Entry],
    key: &SettingKey,
) -> Option<String> {
    let mut kept = plan.changes.iter().filter(|change| is_kept(change));
    let tolerance = kept.find(|change| change.changes_along(key))?;
    let own = oldest.iter().find(|entry| entry.key == tolerance.key)?;
    if have_same_meaning(own.key.setting, &own.old, &tolerance.old) {
        return None;
    }
    predict_table_by_kernel(system, key)
}

/// Whether a plan has a value for a setting that is in force already.
fn is_kept(change: &Change) -> bool {
    change.new.is_some() && !change.differs()
}

const fn is_drive_table(key: &SettingKey) -> bool {
    matches!(key.setting.mechanism, Access::NvmeFeature(_))
}
