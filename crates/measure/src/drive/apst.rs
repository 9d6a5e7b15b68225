//! An NVMe drive's autonomous power state transitions (APST), switched off to find the cause of sleep.

use rustix::process::geteuid;
use wakepath_system::nvme::ApstFeature;
use wakepath_system::setting::find_setting;
use wakepath_system::{At, SettingKey, System};

use crate::storage::find_single_drive;
use crate::test_file::{BackingDevice, TestTarget};

/// APST setting of a drive behind a target: on, and free to be switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApstSwitch {
    /// The drive's controller, such as `nvme0`.
    pub(crate) controller: String,
    pub(crate) key: SettingKey,
    /// The setting's value for APST switched off.
    pub(crate) off: String,
}

impl ApstSwitch {
    /// The setting of the only NVMe drive behind a target; `None` without root, for other drives, and where APST is off, lacking
    /// or without a transition.
    pub(super) fn find(system: &System, target: &TestTarget) -> Option<Self> {
        let device = BackingDevice::find_of_target(system.root(), target)?;
        let drive = find_single_drive(system.root(), &device.disk)?;
        Self::find_of_controller(system, system.controller_of_namespace(&drive)?)
    }

    /// The setting of an NVMe controller; `None` as for [`Self::find`].
    pub(crate) fn find_of_controller(system: &System, controller: String) -> Option<Self> {
        if system.root().is_live() && !geteuid().is_root() {
            return None;
        }
        let setting = find_setting("apst")?;
        let key = SettingKey::for_matching_scope(setting, At::Drive(controller.clone()))?;
        let present = ApstFeature::parse(&system.read_setting(&key).ok()?)?;
        let mut entries = present.table.entries();
        if !present.enabled || entries.all(|entry| entry.timeout_ms == 0) {
            return None;
        }
        // An empty table, as the kernel sets to switch APST off (`nvme_configure_apst`, Linux 6.12).
        let zeros = "00".repeat(present.table.to_bytes().len());
        Some(Self {
            controller,
            key,
            off: format!("off:{zeros}"),
        })
    }
}
