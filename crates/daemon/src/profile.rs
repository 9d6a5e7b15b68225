//! Drive profiles: which APST table a drive has on mains power and on battery, and that it keeps it.

use regex::Regex;
use wakepath_hardware::drive::Drive;
use wakepath_policies::apst::gaps::Gaps;
use wakepath_policies::apst::{ApstTable, plan};
use wakepath_settings::daemon_config::{Config, DriveConfig, Timeouts};
use wakepath_settings::{Hold, SettingsError, Targets, policy};
use wakepath_system::apst::kernel_apst;
use wakepath_system::nvme::{self, ApstFeature};
use wakepath_system::{At, SettingKey, System, SystemError, setting};

/// With fewer gaps they say nothing.
const ENOUGH_GAPS: u64 = 100;

/// A drive that has a profile.
#[derive(Debug)]
pub struct DriveProfile {
    /// The controller's name, such as `nvme0`.
    pub name: String,
    key: SettingKey,
    drive: Drive,
    /// By sysfs, when the profile was picked.
    identity: Identity,
    config: DriveConfig,
    /// Its namespaces, with their device numbers (major << 20 | minor).
    disks: Vec<(String, u32)>,
    /// The table that it is to have.
    wanted: String,
    /// I/Os and the kernel's latency tolerance when it was last looked at.
    seen: (u64, String),
}

/// What looking at a drive came to.
#[derive(Debug)]
pub enum CheckOutcome {
    /// It is as it should be, or asleep, and was not asked.
    Fine,
    /// It was set again: who could have changed it.
    SetAgain(String),
    /// It has another table now, because the power supply or the observed gaps changed.
    Changed,
    /// Another drive has its name now: the model of that. The profile is not for it.
    Replaced(String),
    /// It could not be asked or set.
    Failed(SettingsError),
}

/// The drives of a machine that have a profile, and for each whose profile cannot be followed, why.
pub fn profiles(
    system: &System,
    config: &Config,
    mains: bool,
) -> (Vec<DriveProfile>, Vec<(String, SettingsError)>) {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    for name in system.drives() {
        match DriveProfile::new(system, config, mains, &name) {
            Ok(profile) => all.extend(profile),
            Err(error) => missing.push((name, error)),
        }
    }
    (all, missing)
}

/// Model and serial number as sysfs has them, which asks the drive for nothing; empty where it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    model: String,
    serial: String,
}

impl Identity {
    fn of(system: &System, name: &str) -> Self {
        let file = |file: &str| {
            let path = format!("sys/class/nvme/{name}/{file}");
            system.root().optional(&path).unwrap_or_default()
        };
        Self {
            model: file("model"),
            serial: file("serial"),
        }
    }
}

impl DriveProfile {
    /// The profile of a drive; `None` if none fits.
    ///
    /// # Errors
    /// The drive does not answer, or its policy cannot be applied to it.
    fn new(
        system: &System,
        config: &Config,
        mains: bool,
        name: &str,
    ) -> Result<Option<Self>, SettingsError> {
        let identity = Identity::of(system, name);
        let fits = |drive: &&DriveConfig| {
            matches(&drive.model, &identity.model) && matches(&drive.serial, &identity.serial)
        };
        let (Some(drive_config), Some(setting)) =
            (config.drive.iter().find(fits), setting::find("apst"))
        else {
            return Ok(None);
        };
        let Some(key) = SettingKey::new(setting, At::Drive(name.to_owned())) else {
            return Ok(None);
        };
        let drive = nvme::identify(system.root(), name).map_err(|source| SystemError::Nvme {
            path: system.root().path(&format!("dev/{name}")),
            command: "Identify Controller",
            source,
        })?;
        let disks = system
            .disks()
            .into_iter()
            .filter(|disk| system.controller(disk).as_deref() == Some(name));
        let mut profile = Self {
            key,
            disks: disks
                .map(|disk| (disk.clone(), device(system, &disk)))
                .collect(),
            config: drive_config.clone(),
            drive,
            identity,
            wanted: String::new(),
            seen: (0, String::new()),
            name: name.to_owned(),
        };
        profile.wanted = profile.table(system, mains, None)?;
        profile.seen = profile.now(system);
        // Its old value has to be known before it is changed.
        system.read(&profile.key)?;
        Ok(Some(profile))
    }

    /// The setting and the table that it is to have.
    pub fn setting(&self) -> (SettingKey, String) {
        (self.key.clone(), self.wanted.clone())
    }

    /// What it is, for people.
    pub fn model(&self) -> &str {
        &self.drive.model
    }

    /// Whether its idle times follow the gaps between its I/Os.
    pub fn observes(&self) -> bool {
        self.config.timeouts == Timeouts::Observed
    }

    /// The block devices whose idle gaps have to be counted.
    pub fn observed(&self) -> impl Iterator<Item = u32> {
        let disks = self.disks.iter().filter(|_| self.observes());
        disks
            .map(|(_, device)| *device)
            .filter(|device| *device != 0)
    }

    /// The model of another drive that has the name now; `None` while it is the same, or while there is none.
    pub fn replaced(&self, system: &System) -> Option<String> {
        let now = Identity::of(system, &self.name);
        (now != self.identity && !now.model.is_empty()).then_some(now.model)
    }

    /// Whether the power supply matters.
    pub const fn by_supply(&self) -> bool {
        self.config.battery.is_some()
    }

    /// Sets the table.
    ///
    /// # Errors
    /// The drive refuses it.
    pub fn set(&self, hold: &Hold) -> Result<(), SettingsError> {
        hold.set(&self.key, Some(&self.wanted))
    }

    /// Looks whether the table is still there, and is still the right one. A drive that did nothing since the last time
    /// is not asked, unless `all`: asking is a command, which can wake it.
    pub fn look(
        &mut self,
        system: &System,
        hold: &Hold,
        mains: bool,
        gaps: Option<&Gaps>,
        slept: bool,
    ) -> CheckOutcome {
        if let Some(model) = self.replaced(system) {
            return CheckOutcome::Replaced(model);
        }
        let wanted = match self.table(system, mains, gaps) {
            Ok(wanted) => wanted,
            Err(error) => return CheckOutcome::Failed(error),
        };
        if wanted != self.wanted {
            self.wanted = wanted;
            return self
                .set(hold)
                .map_or_else(CheckOutcome::Failed, |()| CheckOutcome::Changed);
        }
        let now = self.now(system);
        let before = std::mem::replace(&mut self.seen, now);
        if before == self.seen && !slept {
            return CheckOutcome::Fine;
        }
        let found = match system.read(&self.key) {
            Ok(found) => found,
            Err(error) => return CheckOutcome::Failed(error.into()),
        };
        if setting::same(self.key.setting, &found, &self.wanted) {
            return CheckOutcome::Fine;
        }
        let who = self.suspects(system, &found, before.1 != self.seen.1, slept);
        self.set(hold)
            .map_or_else(CheckOutcome::Failed, |()| CheckOutcome::SetAgain(who))
    }

    /// Who could have changed the table.
    fn suspects(
        &self,
        system: &System,
        found: &str,
        tolerance_changed: bool,
        slept: bool,
    ) -> String {
        let settings = kernel_apst(system.root(), &self.name, &self.drive);
        let supported = self.drive.apsta.unwrap_or(true);
        let kernels = plan(self.drive.npss, supported, &self.drive.states, &settings).ok();
        let kernels = kernels.map(|plan| ApstFeature {
            enabled: plan.enabled,
            table: plan.table,
        });
        let by_kernel = kernels.is_some_and(|own| own.to_string() == found);
        match (by_kernel, slept, tolerance_changed) {
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

    /// I/Os of the drive so far, and the kernel's latency tolerance.
    fn now(&self, system: &System) -> (u64, String) {
        let ios = |disk: &str| -> u64 {
            let text = system.root().optional(&format!("sys/block/{disk}/stat"));
            let text = text.unwrap_or_default();
            // Fields 1 and 5 are reads and writes (Documentation/block/stat.rst).
            let count = |at: usize| text.split_whitespace().nth(at)?.parse::<u64>().ok();
            count(0).unwrap_or(0).wrapping_add(count(4).unwrap_or(0))
        };
        let tolerance = nvme::latency_tolerance(system.root(), &self.name);
        let ios = self.disks.iter().map(|(disk, _)| ios(disk)).sum();
        (ios, tolerance.unwrap_or_default())
    }

    /// The table for a power supply and observed gaps.
    fn table(
        &self,
        system: &System,
        mains: bool,
        gaps: Option<&Gaps>,
    ) -> Result<String, SettingsError> {
        let policy = match &self.config.battery {
            Some(battery) if !mains => battery,
            _ => &self.config.ac,
        };
        let selection = Targets {
            drives: Some(vec![self.name.clone()]),
            ..Targets::default()
        };
        let wanted = policy::resolve(system, &policy.0, &selection)?;
        let text = wanted.values.into_iter().next().map(|(_, value)| value);
        let text = text.unwrap_or_default();
        Ok(match (gaps, ApstFeature::parse(&text)) {
            (Some(gaps), Some(mut feature)) => {
                self.suit(&mut feature.table, gaps);
                feature.to_string()
            }
            _ => text,
        })
    }

    /// Puts in the idle times that suit the gaps, where they say anything.
    fn suit(&self, table: &mut ApstTable, gaps: &Gaps) {
        if gaps.count() < ENOUGH_GAPS {
            return;
        }
        let entries: Vec<_> = table
            .entries()
            .filter(|entry| entry.timeout_ms > 0)
            .collect();
        for entry in entries {
            let target = self.drive.states.get(usize::from(entry.target));
            let latency = target.map_or(0, wakepath_hardware::drive::PowerState::total_latency_us);
            if let Some(found) = gaps.timeout(latency) {
                table.0[usize::from(entry.state)] =
                    u64::from(entry.target) << 3 | found.timeout_ms() << 8;
            }
        }
    }
}

/// The device number of a block device, as the eBPF programs have it; 0 if it is not known.
fn device(system: &System, disk: &str) -> u32 {
    let text = system
        .root()
        .optional(&format!("sys/block/{disk}/dev"))
        .unwrap_or_default();
    let numbers = text.split_once(':').and_then(|(major, minor)| {
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(major << 20 | minor)
    });
    numbers.unwrap_or(0)
}

/// Whether a text fits a pattern with `*` for any text and `?` for any character.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: String = pattern
        .chars()
        .map(|c| match c {
            '*' => ".*".to_owned(),
            '?' => ".".to_owned(),
            c => regex::escape(c.encode_utf8(&mut [0; 4])),
        })
        .collect();
    // Nothing that is made so is refused, unless it is longer than any name.
    Regex::new(&format!(r"(?s)\A{pattern}\z")).is_ok_and(|pattern| pattern.is_match(text))
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
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_star_fits_whatever_stands_there(head in "[a-c]{0,4}", middle in ".{0,6}", tail in "[a-c]{0,4}") {
            let pattern = format!("{head}*{tail}");
            let text = format!("{head}{middle}{tail}");
            prop_assert!(matches(&pattern, &text));
            prop_assert!(matches(&text.replace(['*', '?'], "?"), &text));
        }
    }
}
