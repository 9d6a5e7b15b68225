//! Collects the settings that a policy asks for: places and values.

use wakepath_policies::PolicySet;
use wakepath_policies::spec::PolicySpec;
use wakepath_system::capture::runs_under_hypervisor;
use wakepath_system::setting::{self, SettingScope};
use wakepath_system::{At, SettingKey, System};

use crate::{SettingsError, WantedSetting};

/// Which CPUs and drives a policy is for.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// The only CPUs to change; `None`: all. One CPU stands for all with the same clock.
    pub cpus: Option<Vec<usize>>,
    /// The only drives to change, such as `nvme0`; `None`: all.
    pub drives: Option<Vec<String>>,
    /// Drives to leave alone. A policy that only they could follow changes nothing, and is no error.
    pub excluded_drives: Vec<String>,
    /// Whether the drives that a policy is for, or their namespaces, may come later. Until then such a policy changes nothing, and a
    /// note says so.
    pub drives_may_come_later: bool,
    /// Whether to use drives' power states that the kernel avoids because they are broken on this drive.
    pub force: bool,
}

/// Collects the settings that one policy of a set asks for on a machine.
pub(super) struct SettingsBuilder<'a> {
    pub(super) system: &'a System,
    pub(super) targets: &'a Targets,
    /// The whole set.
    pub(super) set: &'a PolicySet,
    /// The policy.
    pub(super) spec: &'a PolicySpec,
    /// The settings and notes collected so far.
    pub(super) wanted: &'a mut WantedSetting,
}

impl SettingsBuilder<'_> {
    pub(super) fn policy_error(&self, why: impl Into<String>) -> SettingsError {
        SettingsError::Policy {
            policy: self.spec.to_string(),
            why: why.into(),
        }
    }

    pub(super) fn add_note_once(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.wanted.notes.contains(&note) {
            self.wanted.notes.push(note);
        }
    }

    /// Asks for a value of a setting at a place.
    pub(super) fn add_wanted_value(
        &mut self,
        setting_name: &str,
        at: At,
        value: impl Into<String>,
    ) {
        if let Some(key) =
            SettingKey::for_matching_scope(setting::setting_known_to_exist(setting_name), at)
        {
            self.wanted.values.push((key, value.into()));
        }
    }

    /// Asks for a value of a setting wherever the setting exists and is selected.
    pub(super) fn add_wanted_value_at_selected_places(
        &mut self,
        setting_name: &str,
        value: &str,
    ) -> Result<(), SettingsError> {
        let places = self.selected_existing_places(setting_name, |_| true)?;
        if places.is_empty() && self.targets.drives_may_come_later {
            self.note_that_drives_may_come();
        }
        for at in places {
            self.add_wanted_value(setting_name, at, value);
        }
        Ok(())
    }

    pub(super) fn note_that_drives_may_come(&mut self) {
        let note = format!(
            "{}: no drive has this setting now; a drive that comes later gets it",
            self.spec
        );
        self.add_note_once(note);
    }

    /// The places where a setting exists, is selected, and passes a test; none is an error.
    pub(super) fn selected_existing_places(
        &self,
        setting_name: &str,
        test: impl Fn(&At) -> bool,
    ) -> Result<Vec<At>, SettingsError> {
        let info = setting::setting_known_to_exist(setting_name);
        let places: Vec<At> = self
            .system
            .places_in_scope(info.scope)
            .into_iter()
            .filter(|at| self.is_selected(at) && test(at))
            .filter(|at| {
                SettingKey::for_matching_scope(info, at.clone())
                    .is_some_and(|key| self.system.root().exists(&key.relative_path()))
            })
            .collect();
        let may_be_none = matches!(info.scope, SettingScope::Drive | SettingScope::Disk)
            && (self.targets.drives_may_come_later || !self.targets.excluded_drives.is_empty());
        if places.is_empty() && !may_be_none {
            return Err(self.policy_error(self.explain_missing_setting(info.name)));
        }
        Ok(places)
    }

    fn is_selected(&self, at: &At) -> bool {
        let cpus = self.targets.cpus.as_ref();
        let drives = self.targets.drives.as_ref();
        match at {
            At::System => true,
            At::Cpu(cpu) | At::IdleState { cpu, .. } => cpus.is_none_or(|c| c.contains(cpu)),
            At::CpufreqPolicy(policy) => cpus.is_none_or(|cpus| {
                let shared = self.system.online_cpus_of_cpufreq_policy(*policy);
                shared.iter().any(|cpu| cpus.contains(cpu))
            }),
            At::Drive(drive) => self.is_drive_selected(drive),
            At::Disk(disk) => match self.system.controller_of_namespace(disk) {
                Some(drive) => self.is_drive_selected(&drive),
                None => drives.is_none(),
            },
            At::Interrupt(_) => drives.is_none(),
        }
    }

    pub(super) fn is_drive_selected(&self, drive: &String) -> bool {
        let named = self.targets.drives.as_ref();
        named.is_none_or(|drives| drives.contains(drive))
            && !self.targets.excluded_drives.contains(drive)
    }

    /// The selected CPUs.
    pub(super) fn selected_cpus(&self) -> Vec<usize> {
        let all = self.system.places_in_scope(SettingScope::Cpu).into_iter();
        all.filter(|at| self.is_selected(at))
            .filter_map(|at| match at {
                At::Cpu(cpu) => Some(cpu),
                _ => None,
            })
            .collect()
    }

    /// The selected drives.
    pub(super) fn selected_nvme_drives(&self) -> Vec<String> {
        let all = self.system.nvme_controller_names().into_iter();
        all.filter(|d| self.is_selected(&At::Drive(d.clone())))
            .collect()
    }

    /// Explains why no selected place has the setting.
    fn explain_missing_setting(&self, setting_name: &str) -> String {
        let info = setting::setting_known_to_exist(setting_name);
        let what = match info.scope {
            SettingScope::CpufreqPolicy => "this machine offers no cpufreq setting of that kind",
            SettingScope::Drive => "this machine shows no NVMe drive with that setting",
            SettingScope::Disk => "this machine shows no selected disk with that setting",
            _ => "this machine has no such setting",
        };
        let path = info.path_pattern();
        let hypervisor = if runs_under_hypervisor(self.system.root()) {
            "; it is a virtual machine, whose host keeps it"
        } else {
            ""
        };
        format!("{what} ({path}){hypervisor}")
    }
}

/// Checks that the CPUs and drives in the targets exist: a typing error must not select nothing.
pub(super) fn check_targets_exist(system: &System, targets: &Targets) -> Result<(), SettingsError> {
    if let Some(cpus) = &targets.cpus {
        check_cpus_online(system, cpus).map_err(|why| wrong_option_error("--cpus", why))?;
    }
    let drives = system.nvme_controller_names();
    if let Some(drive) = targets
        .drives
        .iter()
        .flatten()
        .find(|d| !drives.contains(d))
    {
        let known = if drives.is_empty() {
            "this machine shows no NVMe drive".to_owned()
        } else {
            format!("there are {}", drives.join(", "))
        };
        return Err(wrong_option_error(
            "--drives",
            format!("no drive {drive}; {known}"),
        ));
    }
    Ok(())
}

fn wrong_option_error(option: &str, why: String) -> SettingsError {
    SettingsError::Policy {
        policy: option.to_owned(),
        why,
    }
}

/// Checks that all CPUs are online.
pub(crate) fn check_cpus_online(system: &System, cpus: &[usize]) -> Result<(), String> {
    let online = system.cpus();
    cpus.iter()
        .find(|cpu| !online.contains(cpu))
        .map_or(Ok(()), |cpu| {
            let last = online.last().copied().unwrap_or(0);
            Err(format!("no CPU {cpu} is online; the last is {last}"))
        })
}

/// A switch as sysfs has it: `1` or `0`.
pub(super) const fn switch_as_digit(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}
