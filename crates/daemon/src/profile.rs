//! Drive profiles: the APST table of a drive on mains power and on battery. The drive is made to keep its table.

use regex::Regex;
use wakepath_hardware::drive::Drive;
use wakepath_policies::apst::ApstTable;
use wakepath_policies::apst::gaps::DriveIdleGaps;
use wakepath_settings::daemon_config::{Config, DriveConfig, Timeouts};
use wakepath_settings::{Hold, SettingsError, Targets, policy};
use wakepath_system::apst::predict_kernel_apst_feature;
use wakepath_system::nvme::{self, ApstFeature};
use wakepath_system::{At, DriveIdentity, SettingKey, System, setting};

/// Number of observed idle gaps below which the idle times of a table stay as they are.
const ENOUGH_GAPS: u64 = 100;

/// A drive that has a profile, and is made to keep its table.
#[derive(Debug)]
pub struct DriveProfile {
    /// The controller's name, such as `nvme0`.
    pub name: String,
    key: SettingKey,
    drive: Drive,
    /// Model and serial number of the drive for which the profile was picked.
    identity: DriveIdentity,
    config: DriveConfig,
    /// The drive's block devices.
    disks: Vec<Disk>,
    /// The APST table that the drive is to have, as text.
    wanted: String,
    /// The drive's activity at the last check.
    activity: DriveActivity,
}

/// A block device of a drive, such as a namespace.
#[derive(Debug)]
struct Disk {
    name: String,
    /// Device number of the block device, if known.
    device: Option<u32>,
}

impl Disk {
    /// Reads how many reads and writes the block device has completed: fields 1 and 5 of `stat`
    /// (Documentation/block/stat.rst).
    fn read_completed_ios(&self, system: &System) -> u64 {
        let path = format!("sys/block/{}/stat", self.name);
        let text = system
            .root()
            .read_text_if_readable(&path)
            .unwrap_or_default();
        let fields: Vec<&str> = text.split_whitespace().collect();
        [0, 4]
            .into_iter()
            .filter_map(|index| fields.get(index)?.parse::<u64>().ok())
            .fold(0, u64::wrapping_add)
    }
}

/// What shows at a check that a drive was used, or that the kernel made a new table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DriveActivity {
    /// Number of I/Os of the drive so far.
    ios: u64,
    /// The drive's latency tolerance, to which the kernel fits the table.
    latency_tolerance: String,
}

/// What the power supply is at a check, and whether the machine has slept.
#[derive(Clone, Copy, Debug)]
pub struct SupplyState {
    /// Whether the machine is on mains power.
    pub mains: bool,
    /// Whether the machine has slept since the last check.
    pub has_slept: bool,
}

/// Outcome of a check of a drive.
#[derive(Debug)]
pub enum CheckOutcome {
    /// The drive has its table, or is unused and was not asked.
    Fine,
    /// The drive's table was set again; the text says who could have changed it.
    SetAgain(String),
    /// The drive got another table, because the power supply or the observed gaps changed.
    Changed,
    /// Another drive has the name now: its model.
    Replaced(String),
    /// The drive could not be asked for its table, or refused it.
    Failed(SettingsError),
}

/// Finds the drives with profiles. Beside them come drives whose profile cannot be followed, with reasons.
pub fn find_profiles_and_unfit_drives(
    system: &System,
    config: &Config,
    mains: bool,
) -> (Vec<DriveProfile>, Vec<(String, SettingsError)>) {
    let (mut all, mut unfit) = (Vec::new(), Vec::new());
    for name in system.nvme_controller_names() {
        match DriveProfile::find_and_plan_for_drive(system, config, mains, &name) {
            Ok(profile) => all.extend(profile),
            Err(error) => unfit.push((name, error)),
        }
    }
    (all, unfit)
}

impl DriveProfile {
    /// Finds the profile of a drive; `None` if none fits.
    ///
    /// # Errors
    /// The drive does not answer, or its policy cannot be applied to it.
    fn find_and_plan_for_drive(
        system: &System,
        config: &Config,
        mains: bool,
        drive_name: &str,
    ) -> Result<Option<Self>, SettingsError> {
        let identity = DriveIdentity::read(system.root(), drive_name);
        let mut configs = config.drive.iter();
        let Some(drive_config) = configs.find(|config| is_profile_for_drive(config, &identity))
        else {
            return Ok(None);
        };
        let info = setting::find_setting("apst");
        let Some(key) = info.and_then(|info| {
            SettingKey::for_matching_scope(info, At::Drive(drive_name.to_owned()))
        }) else {
            return Ok(None);
        };
        let drive = system.identify_drive(drive_name)?;
        let mut profile = Self {
            key,
            disks: list_disks_of_drive(system, drive_name),
            config: drive_config.clone(),
            drive,
            identity,
            wanted: String::new(),
            activity: DriveActivity::default(),
            name: drive_name.to_owned(),
        };
        profile.wanted = profile.plan_table_text(system, mains, None)?;
        profile.activity = profile.read_activity(system);
        // The drive's old table has to be known before it is changed.
        system.read_setting(&profile.key)?;
        Ok(Some(profile))
    }

    /// The setting of the drive's table, with the table that the drive is to have.
    pub fn setting_and_table(&self) -> (SettingKey, String) {
        (self.key.clone(), self.wanted.clone())
    }

    /// The drive's model, for messages.
    pub fn model(&self) -> &str {
        &self.drive.model
    }

    /// Whether the table's idle times follow the observed gaps between I/Os.
    pub fn observes_gaps(&self) -> bool {
        self.config.timeouts == Timeouts::Observed
    }

    /// Numbers of the drive's block devices whose idle gaps have to be counted.
    pub fn numbers_of_observed_devices(&self) -> impl Iterator<Item = u32> {
        let disks = self.disks.iter().filter(|_| self.observes_gaps());
        disks.filter_map(|disk| disk.device)
    }

    /// Model of another drive that has the name now; `None` while the drive is the same, or away.
    pub fn model_of_replacement(&self, system: &System) -> Option<String> {
        let now = DriveIdentity::read(system.root(), &self.name);
        (now != self.identity && now.has_model()).then_some(now.model)
    }

    /// Whether the table depends on the power supply.
    pub const fn depends_on_supply(&self) -> bool {
        self.config.battery.is_some()
    }

    /// Writes the drive's table.
    ///
    /// # Errors
    /// The drive refuses the table.
    pub fn write_table(&self, hold: &Hold) -> Result<(), SettingsError> {
        hold.write_or_put_back(&self.key, Some(&self.wanted))
    }

    /// Checks that the drive has the right table. A drive without I/O since the last check is not asked, unless the machine has
    /// slept: asking is a command, which can wake the drive.
    pub fn check_and_set_changed_table(
        &mut self,
        system: &System,
        hold: &Hold,
        supply: SupplyState,
        gaps: Option<&DriveIdleGaps>,
    ) -> CheckOutcome {
        if let Some(model) = self.model_of_replacement(system) {
            return CheckOutcome::Replaced(model);
        }
        let wanted = match self.plan_table_text(system, supply.mains, gaps) {
            Ok(wanted) => wanted,
            Err(error) => return CheckOutcome::Failed(error),
        };
        if wanted != self.wanted {
            self.wanted = wanted;
            return self
                .write_table(hold)
                .map_or_else(CheckOutcome::Failed, |()| CheckOutcome::Changed);
        }
        let now = self.read_activity(system);
        let before = std::mem::replace(&mut self.activity, now);
        if before == self.activity && !supply.has_slept {
            return CheckOutcome::Fine;
        }
        let found = match system.read_setting(&self.key) {
            Ok(found) => found,
            Err(error) => return CheckOutcome::Failed(error.into()),
        };
        if setting::have_same_meaning(self.key.setting, &found, &self.wanted) {
            return CheckOutcome::Fine;
        }
        let tolerance_changed = before.latency_tolerance != self.activity.latency_tolerance;
        let who =
            self.explain_who_changed_table(system, &found, tolerance_changed, supply.has_slept);
        self.write_table(hold)
            .map_or_else(CheckOutcome::Failed, |()| CheckOutcome::SetAgain(who))
    }

    /// Says who could have changed the drive's table.
    fn explain_who_changed_table(
        &self,
        system: &System,
        found: &str,
        tolerance_changed: bool,
        has_slept: bool,
    ) -> String {
        let by_kernel = predict_kernel_apst_feature(system.root(), &self.name, &self.drive)
            .is_some_and(|feature| feature.to_string() == found);
        match (by_kernel, has_slept, tolerance_changed) {
            (true, true, _) => "it has the kernel's own table: the machine slept, and the kernel sets drives up anew when it wakes",
            (true, _, true) => {
                "it has the kernel's own table: somebody wrote pm_qos_latency_tolerance_us, upon which the kernel sets it"
            }
            (true, ..) => "it has the kernel's own table: the drive was reset, upon which the kernel sets it",
            (false, true, _) => "the machine slept: the drive may have lost its table, or its firmware set another",
            (false, ..) => {
                "it is not the kernel's table either: a program such as nvme-cli, or the drive's firmware"
            }
        }
        .to_owned()
    }

    fn read_activity(&self, system: &System) -> DriveActivity {
        let tolerance = nvme::read_latency_tolerance(system.root(), &self.name);
        DriveActivity {
            ios: self
                .disks
                .iter()
                .map(|disk| disk.read_completed_ios(system))
                .fold(0, u64::wrapping_add),
            latency_tolerance: tolerance.unwrap_or_default(),
        }
    }

    /// Plans the drive's table for a power supply and observed gaps, as text.
    fn plan_table_text(
        &self,
        system: &System,
        mains: bool,
        gaps: Option<&DriveIdleGaps>,
    ) -> Result<String, SettingsError> {
        let policy = match &self.config.battery {
            Some(battery) if !mains => battery,
            _ => &self.config.ac,
        };
        let targets = Targets {
            drives: Some(vec![self.name.clone()]),
            ..Targets::default()
        };
        let wanted = policy::resolve_to_settings(system, &policy.0, &targets)?;
        let value = wanted.values.into_iter().next().map(|(_, value)| value);
        let by_policy = value.unwrap_or_default();
        Ok(match (gaps, ApstFeature::parse(&by_policy)) {
            (Some(gaps), Some(mut feature)) => {
                self.fit_timeouts_to_gaps(&mut feature.table, gaps);
                feature.to_string()
            }
            _ => by_policy,
        })
    }

    /// Fits the idle times of a table to the observed gaps, if enough gaps are known.
    fn fit_timeouts_to_gaps(&self, table: &mut ApstTable, gaps: &DriveIdleGaps) {
        if gaps.total_count() < ENOUGH_GAPS {
            return;
        }
        let entries: Vec<_> = table
            .entries()
            .filter(|entry| entry.timeout_ms > 0)
            .collect();
        for entry in entries {
            let target = self.drive.states.get(usize::from(entry.target));
            let latency = target.map_or(
                0,
                wakepath_hardware::drive::PowerState::entry_and_exit_latency_us,
            );
            if let Some(found) = gaps.choose_best_timeout(latency) {
                table.0[usize::from(entry.state)] =
                    u64::from(entry.target) << 3 | found.timeout_rounded_up_ms() << 8;
            }
        }
    }
}

/// Whether a profile is for the drive with this identity.
fn is_profile_for_drive(config: &DriveConfig, identity: &DriveIdentity) -> bool {
    matches_wildcards(&config.model, &identity.model)
        && matches_wildcards(&config.serial, &identity.serial)
}

/// The block devices of a drive.
fn list_disks_of_drive(system: &System, drive: &str) -> Vec<Disk> {
    let disks = system.drive_block_devices().into_iter();
    disks
        .filter(|disk| system.controller_of_namespace(disk).as_deref() == Some(drive))
        .map(|name| Disk {
            device: read_packed_device_number(system, &name),
            name,
        })
        .collect()
}

/// Reads the device number of a block device as the eBPF programs have it: major << 20 | minor.
fn read_packed_device_number(system: &System, disk: &str) -> Option<u32> {
    let text = system
        .root()
        .read_text_if_readable(&format!("sys/block/{disk}/dev"))?;
    let (major, minor) = text.split_once(':')?;
    let number = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
    (number != 0).then_some(number)
}

/// Whether a text fits a pattern with `*` for any text and `?` for any character.
pub fn matches_wildcards(pattern: &str, text: &str) -> bool {
    let regex: String = pattern
        .chars()
        .map(|c| match c {
            '*' => ".*".to_owned(),
            '?' => ".".to_owned(),
            c => regex::escape(c.encode_utf8(&mut [0; 4])),
        })
        .collect();
    // Patterns that could take long are refused only if they are longer than any name.
    Regex::new(&format!(r"(?s)\A{regex}\z")).is_ok_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("WDC*", "WDC PC SN530", true),
            ("*SN5?0*", "WDC PC SN530 X", true),
            ("SN530", "WDC PC SN530", false),
            ("*SN530", "WDC PC SN530", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("", "x", false),
        ] {
            assert_eq!(matches_wildcards(pattern, text), fits, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_star_fits_whatever_stands_there(head in "[a-c]{0,4}", middle in ".{0,6}", tail in "[a-c]{0,4}") {
            let pattern = format!("{head}*{tail}");
            let text = format!("{head}{middle}{tail}");
            prop_assert!(matches_wildcards(&pattern, &text));
            prop_assert!(matches_wildcards(&text.replace(['*', '?'], "?"), &text));
        }
    }
}
