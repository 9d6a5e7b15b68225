//! Drives with profiles: when they are checked, and what is done then.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wakepath_policies::apst::gaps::DriveIdleGaps;
use wakepath_settings::daemon_config::Config;
use wakepath_settings::{Hold, PowerSupply, SettingsError};
use wakepath_system::System;

use crate::log;
use crate::profile::{CheckOutcome, DriveProfile, SupplyState, find_profiles_and_unfit_drives};

/// How often the power supply is read, where a profile depends on it.
const SUPPLY_INTERVAL: Duration = Duration::from_secs(5);
/// A longer time asleep between two checks was a suspend; the two clocks are not read at one instant.
const LEAST_SLEEP: Duration = Duration::from_millis(100);

/// The drives with profiles, and when to check them.
pub(crate) struct ManagedDrives {
    pub(crate) profiles: Vec<DriveProfile>,
    interval: Duration,
    next: Instant,
    mains: bool,
    /// When to read the power supply next; `None` where no profile depends on it.
    supply_next: Option<Instant>,
    /// How long the machine had slept at the last check.
    slept: Duration,
}

/// Result of a check of the drives.
#[derive(Default)]
pub(crate) struct DriveReport {
    /// Number of APST tables that were set again because something had changed them.
    pub(crate) set_again: u64,
    /// Errors of drives that could not be asked or set.
    pub(crate) errors: Vec<SettingsError>,
}

impl ManagedDrives {
    /// Finds the drives with profiles. Beside them come drives whose profile cannot be followed, with reasons.
    pub(crate) fn find_managed_and_unfit(
        system: &System,
        config: &Config,
    ) -> (Self, Vec<(String, SettingsError)>) {
        let mains = PowerSupply::read(system.root()) == PowerSupply::Mains;
        let (profiles, unfit) = find_profiles_and_unfit_drives(system, config, mains);
        let by_supply = profiles.iter().any(DriveProfile::depends_on_supply);
        let now = Instant::now();
        let drives = Self {
            interval: config.drives.check.0,
            next: now + config.drives.check.0,
            supply_next: by_supply.then(|| now + SUPPLY_INTERVAL),
            profiles,
            mains,
            slept: total_time_asleep(),
        };
        (drives, unfit)
    }

    /// Numbers of the block devices of each drive whose idle gaps have to be counted.
    pub(crate) fn observed_devices_by_drive(&self) -> Vec<Vec<u32>> {
        let profiles = self.profiles.iter();
        profiles
            .map(|profile| profile.numbers_of_observed_devices().collect())
            .filter(|devices: &Vec<u32>| !devices.is_empty())
            .collect()
    }

    /// Sets the drives' APST tables, and drops profiles whose drive refuses; returns the reasons.
    pub(crate) fn set_apst_tables_or_drop_profiles(&mut self, hold: &Hold) -> Vec<String> {
        let mut refused = Vec::new();
        self.profiles
            .retain(|profile| match profile.write_table(hold) {
                Ok(()) => true,
                Err(why) => {
                    // The drive may have taken a part of the table. If the drive refuses the old table, too, the end of
                    // the daemon tries again.
                    let _ = hold.write_or_put_back(&profile.setting_and_table().0, None);
                    refused.push(format!("drive {}: {why}", profile.name));
                    false
                }
            });
        refused
    }

    /// Checks no drive any more: all tables were put back.
    pub(crate) fn forget_all(&mut self) {
        self.profiles.clear();
        self.supply_next = None;
    }

    /// When to check the drives next; `None` without profiles.
    pub(crate) fn next_check_time(&self) -> Option<Instant> {
        let tables = (!self.profiles.is_empty()).then_some(self.next);
        tables.into_iter().chain(self.supply_next).min()
    }

    /// Checks the drives, if a check is due, the power supply has changed, or the machine has slept. `gaps` has the idle gaps
    /// of a block device.
    pub(crate) fn check_and_set_tables_if_due(
        &mut self,
        system: &System,
        hold: &Hold,
        gaps: impl Fn(u32) -> Option<DriveIdleGaps>,
    ) -> DriveReport {
        let mut report = DriveReport::default();
        let Some(supply) = self.read_supply_if_drive_check_due(system) else {
            return report;
        };
        self.profiles.retain_mut(|profile| {
            // Any block device of the drive leads to the gaps of the drive.
            let device = profile.numbers_of_observed_devices().next();
            let gaps = device.and_then(&gaps);
            match profile.check_and_set_changed_table(system, hold, supply, gaps.as_ref()) {
                CheckOutcome::Fine => {}
                CheckOutcome::SetAgain(who) => {
                    report.set_again += 1;
                    log::log_warning(&format!(
                        "{}: the APST table had changed and is set again; {who}",
                        profile.name
                    ));
                }
                CheckOutcome::Changed => {
                    log::log_info(&format!("{}: another APST table is set", profile.name));
                }
                CheckOutcome::Replaced(model) => {
                    report
                        .errors
                        .extend(log_replacement_and_forget_old_table(profile, &model, hold));
                    return false;
                }
                CheckOutcome::Failed(error) => report.errors.push(error),
            }
            true
        });
        report
    }

    /// Reads the power supply's state if the drives have to be checked now; `None` if no check is due.
    fn read_supply_if_drive_check_due(&mut self, system: &System) -> Option<SupplyState> {
        let now = Instant::now();
        let due = !self.profiles.is_empty() && self.next <= now;
        let supply_due = self.supply_next.is_some_and(|next| next <= now);
        if !due && !supply_due {
            return None;
        }
        if supply_due {
            self.supply_next = Some(now + SUPPLY_INTERVAL);
        }
        let mains = PowerSupply::read(system.root()) == PowerSupply::Mains;
        let slept = total_time_asleep();
        let has_slept = slept > self.slept + LEAST_SLEEP;
        if !due && !has_slept && mains == self.mains {
            return None;
        }
        self.next = now + self.interval;
        if mains != self.mains {
            log::log_info(if mains {
                "on mains power"
            } else {
                "on battery"
            });
        }
        self.mains = mains;
        self.slept = slept;
        Some(SupplyState { mains, has_slept })
    }

    /// Forgets the old tables of drives that are gone, before everything is put back.
    pub(crate) fn forget_tables_of_replaced_drives(&self, system: &System, hold: &Hold) {
        for profile in &self.profiles {
            if let Some(model) = profile.model_of_replacement(system)
                && let Some(error) = log_replacement_and_forget_old_table(profile, &model, hold)
            {
                log::log_error(&error.to_string());
            }
        }
    }
}

/// Leaves a drive alone that has taken the place of a drive with a profile: neither the profile nor the old table is for
/// the newcomer.
fn log_replacement_and_forget_old_table(
    profile: &DriveProfile,
    model: &str,
    hold: &Hold,
) -> Option<SettingsError> {
    log::log_warning(&format!(
        "{} is another drive now ({model}, after {}): it is left alone until the next reload",
        profile.name,
        profile.model()
    ));
    hold.forget_old_value(&profile.setting_and_table().0).err()
}

/// How long the machine has slept since its start, in all.
fn total_time_asleep() -> Duration {
    read_clock(ClockId::Boottime).saturating_sub(read_clock(ClockId::Monotonic))
}

fn read_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
