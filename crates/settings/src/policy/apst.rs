//! Settings for an APST policy: the table of a drive, planned as the kernel would, with the quirk list respected.

use wakepath_policies::apst::{ApstSettings, NoApstTable, plan_apst_table};
use wakepath_system::At;
use wakepath_system::apst::apst_quirks_by_kernel_or_list;
use wakepath_system::nvme::ApstFeature;

use super::target::SettingsBuilder;
use crate::SettingsError;

/// What a policy means for the table of one drive.
enum DriveTable {
    /// The table to set, as text.
    Wanted(String),
    /// The drive, by name and model, lacks APST.
    Unsupported(String),
}

impl SettingsBuilder<'_> {
    /// Asks for an APST table on every selected drive, within the tolerance from the set's `drive-latency`. Drives without
    /// APST are left alone with a note; they are an error if the targets name drives, or if no drive has APST.
    pub(super) fn add_wanted_apst_tables(&mut self) -> Result<(), SettingsError> {
        let drives = self.selected_nvme_drives();
        if drives.is_empty() {
            if self.targets.drives_may_come_later {
                self.note_that_drives_may_come();
                return Ok(());
            }
            if !self.targets.excluded_drives.is_empty() {
                return Ok(());
            }
            return Err(self.policy_error("this machine shows no NVMe drive"));
        }
        let settings = self.set.apst_settings_with_drive_latency();
        let drive_count = drives.len();
        let mut unsupported = Vec::new();
        for name in drives {
            match self.plan_drive_table(&name, &settings)? {
                DriveTable::Wanted(table) => {
                    self.add_wanted_value("apst", At::Drive(name), table);
                }
                DriveTable::Unsupported(drive) => unsupported.push(drive),
            }
        }
        let are_named = self.targets.drives.is_some();
        let is_none_left = unsupported.len() == drive_count
            && self.targets.excluded_drives.is_empty()
            && !self.targets.drives_may_come_later;
        if !unsupported.is_empty() && (are_named || is_none_left) {
            let why = format!("{}: {}", unsupported.join(", "), NoApstTable::Unsupported);
            return Err(self.policy_error(why));
        }
        for drive in unsupported {
            self.add_note_once(format!("{drive} is left alone: it does not support APST"));
        }
        Ok(())
    }

    fn plan_drive_table(
        &mut self,
        drive_name: &str,
        settings: &ApstSettings,
    ) -> Result<DriveTable, SettingsError> {
        let drive = self.system.identify_drive(drive_name)?;
        if drive.apsta == Some(false) {
            let name_and_model = format!("{drive_name} ({})", drive.model);
            return Ok(DriveTable::Unsupported(name_and_model));
        }
        let mut allowed = *settings;
        let quirks = apst_quirks_by_kernel_or_list(self.system.root(), drive_name, &drive);
        if !self.targets.force {
            if quirks.no_apst {
                return Err(self.policy_error(format!(
                    "{drive_name} ({}): the kernel never uses APST on this drive, because it is known to break it; \
                     --force does it anyway",
                    drive.model
                )));
            }
            if quirks.no_deepest && !allowed.quirks.no_deepest {
                allowed.quirks.no_deepest = true;
                self.add_note_once(format!(
                    "{drive_name} ({}): the deepest power state is left out, because it is known to break this drive; \
                     --force uses it",
                    drive.model
                ));
            }
        }
        let planned = plan_apst_table(drive.npss, true, &drive.states, &allowed)
            .map_err(|why| self.policy_error(format!("{drive_name} ({}): {why}", drive.model)))?;
        if let Some(problem) = planned.table.find_problems(Some(drive.npss)).first() {
            return Err(self.policy_error(format!(
                "{drive_name} ({}): these settings give a table that the drive need not accept: {problem}",
                drive.model
            )));
        }
        if planned.enabled && planned.chosen_states_with_timeouts_ms().next().is_none() {
            self.add_note_once(format!(
                "{drive_name} ({}): no power state fits, so that the table is empty; `wakepath apst plan` says why",
                drive.model
            ));
        }
        let feature = ApstFeature {
            enabled: planned.enabled,
            table: planned.table,
        };
        Ok(DriveTable::Wanted(feature.to_string()))
    }
}
