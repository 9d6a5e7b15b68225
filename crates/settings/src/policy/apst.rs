//! Settings for an APST policy: the table of a drive, planned as the kernel would, with the quirk list respected.

use wakepath_policies::apst::{ApstSettings, plan_apst_table};
use wakepath_system::At;
use wakepath_system::apst::apst_quirks_by_kernel_or_list;
use wakepath_system::nvme::ApstFeature;

use super::target::SettingsBuilder;
use crate::SettingsError;

impl SettingsBuilder<'_> {
    /// Asks for an APST table on every selected drive.
    pub(super) fn add_wanted_apst_tables(
        &mut self,
        settings: &ApstSettings,
    ) -> Result<(), SettingsError> {
        let drives = self.selected_nvme_drives();
        if drives.is_empty() {
            return Err(self.policy_error("this machine shows no NVMe drive"));
        }
        for name in drives {
            let feature = self.plan_apst_table(&name, settings)?;
            self.add_wanted_value("apst", At::Drive(name), feature.to_string());
        }
        Ok(())
    }

    fn plan_apst_table(
        &mut self,
        drive_name: &str,
        settings: &ApstSettings,
    ) -> Result<ApstFeature, SettingsError> {
        let drive = self.system.identify_drive(drive_name)?;
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
        let supported = drive.apsta.unwrap_or(true);
        let planned = plan_apst_table(drive.npss, supported, &drive.states, &allowed)
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
        Ok(ApstFeature {
            enabled: planned.enabled,
            table: planned.table,
        })
    }
}
