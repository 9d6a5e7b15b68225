//! Settings that are applied at every boot: `/etc/wakepath/settings.toml`.

use std::path::PathBuf;

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::System;
use wakepath_system::capture::class::MachineClass;
use wakepath_units::spelling::toml_error_with_key;

use crate::trusted_file::{self, TrustedFileError};
use crate::{PowerSupply, SettingsError, SettingsPlan, Targets, config_folder, policy, store};

/// Name of the file of persistent settings.
const FILE: &str = "settings.toml";
/// Size limit of the file of persistent settings, in bytes.
const MAX_BYTES: u64 = 1 << 16;
/// The word on the kernel's command line that switches persistent settings off.
pub const OFF_WORD: &str = "wakepath.persist=0";

/// Policy sets that are applied at every boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentSettings {
    /// The policy set for a power supply that has no set of its own.
    pub any_supply: Option<PolicySet>,
    /// The policy set for mains power.
    pub mains: Option<PolicySet>,
    /// The policy set for battery power.
    pub battery: Option<PolicySet>,
    /// The CPUs that all sets are for; `None`: all CPUs.
    pub cpus: Option<Vec<usize>>,
    /// The processor that the sets were made for; on another processor they are not applied. `None`: any.
    pub processor: Option<String>,
    /// Settings that somebody else changes are written again.
    pub enforce: bool,
}

/// The keys of the file of persistent settings.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PersistentFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mains: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    battery: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    enforce: bool,
}

/// Comment at the start of a new file of persistent settings.
const HEAD: &str = "\
# Settings that are applied at every boot. `wakepath apply --check` checks this file, `wakepath restore` removes it.
# policy: a policy set, as for `wakepath apply`. mains, battery: the set for that power supply instead.
# cpus: a list such as 0-3,8. processor: only where this one is found.
# enforce = true: what somebody else changes is written again.
";

impl PersistentSettings {
    /// Persistent settings with one set, for the processor of this machine, whatever its power supply.
    pub fn for_any_supply(system: &System, set: PolicySet, cpus: Option<Vec<usize>>) -> Self {
        Self {
            any_supply: Some(set),
            mains: None,
            battery: None,
            cpus,
            processor: read_processor_name(system),
            enforce: false,
        }
    }

    /// Adds a set for one power supply to the persistent settings of the file, whose other sets stay.
    ///
    /// # Errors
    /// The file has a mistake, or sets for other CPUs.
    pub fn load_and_add_set_for_supply(
        system: &System,
        supply: PowerSupply,
        set: PolicySet,
        cpus: Option<Vec<usize>>,
    ) -> Result<Self, SettingsError> {
        let mut settings = match Self::load(system)? {
            Some(settings) if settings.cpus != cpus => {
                let found = settings.cpus.as_deref().map_or_else(
                    || "all CPUs".to_owned(),
                    |cpus| format!("--cpus {}", format_cpu_list_of(cpus)),
                );
                let message = format!(
                    "has a set for {found}, and all sets of it are for the same CPUs; give the same, or \
                     `wakepath restore` first"
                );
                return Err(persistent_file_error(&Self::file_path(system), message));
            }
            Some(settings) => settings,
            None => Self {
                any_supply: None,
                mains: None,
                battery: None,
                cpus,
                processor: None,
                enforce: false,
            },
        };
        settings.processor = read_processor_name(system);
        match supply {
            PowerSupply::Mains => settings.mains = Some(set),
            PowerSupply::Battery => settings.battery = Some(set),
        }
        Ok(settings)
    }

    /// The policy set for a power supply; `None`: with this supply everything stays as it is.
    pub fn set_for_supply_or_any(&self, supply: PowerSupply) -> Option<&PolicySet> {
        let own = match supply {
            PowerSupply::Mains => &self.mains,
            PowerSupply::Battery => &self.battery,
        };
        own.as_ref().or(self.any_supply.as_ref())
    }

    /// Path of the file of persistent settings, for messages.
    pub fn file_path(system: &System) -> PathBuf {
        system
            .root()
            .absolute_path(&format!("{}/{FILE}", config_folder::CONFIG_FOLDER))
    }

    /// Reads the file of persistent settings; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, somebody else could have written it, or it has a mistake.
    pub fn load(system: &System) -> Result<Option<Self>, SettingsError> {
        let path = Self::file_path(system);
        let folder = config_folder::open_config_folder(system.root(), false)
            .map_err(|e| unreadable_file_error(&path, &e))?;
        let Some(folder) = folder else {
            return Ok(None);
        };
        let opened =
            wakepath_files::open_regular_in_folder(&folder, FILE, rustix::fs::OFlags::RDONLY);
        let file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|e| unreadable_file_error(&path, &e))?,
        };
        let about = std::fs::File::from(folder).metadata();
        let checked = about
            .map_err(TrustedFileError::Read)
            .and_then(|about| trusted_file::check_folder_owner_and_mode(&about))
            .and_then(|()| trusted_file::read_open_file_if_trusted(file, MAX_BYTES));
        let text = checked.map_err(|error| match error {
            TrustedFileError::Read(source) => unreadable_file_error(&path, &source),
            TrustedFileError::Unsafe(why) => persistent_file_error(
                &path,
                format!("{why}; wakepath runs as root at boot and would do what it says"),
            ),
        })?;
        Self::parse(&text)
            .map(Some)
            .map_err(|message| persistent_file_error(&path, message))
    }

    /// Reads a file that is to become the file of persistent settings. Anybody may have written it.
    ///
    /// # Errors
    /// The file cannot be read, or it has a mistake.
    pub fn load_candidate(path: &std::path::Path) -> Result<Self, SettingsError> {
        let text = wakepath_files::read_text_up_to(path, MAX_BYTES)
            .map_err(|error| unreadable_file_error(path, &error))?;
        Self::parse(&text).map_err(|message| persistent_file_error(path, message))
    }

    /// Parses the text of a file of persistent settings.
    ///
    /// # Errors
    /// The mistake, with its line.
    fn parse(text: &str) -> Result<Self, String> {
        let file: PersistentFile = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.get(..start).unwrap_or(text).matches('\n').count() + 1;
            format!(
                "line {line}: {}",
                toml_error_with_key(error.message(), text, start)
            )
        })?;
        if file.policy.is_none() && file.mains.is_none() && file.battery.is_none() {
            return Err("no policy set in it: expected `policy`, `mains` or `battery`; `wakepath restore` removes the file".to_owned());
        }
        let cpus = file.cpus.map(|list| {
            let parsed =
                wakepath_units::cpus::parse_cpu_list(&list).filter(|cpus| !cpus.is_empty());
            parsed.ok_or_else(|| format!("cpus: `{list}` is not a list such as 0-3,8"))
        });
        Ok(Self {
            any_supply: parse_nonempty_set("policy", file.policy)?,
            mains: parse_nonempty_set("mains", file.mains)?,
            battery: parse_nonempty_set("battery", file.battery)?,
            cpus: cpus.transpose()?,
            processor: file.processor,
            enforce: file.enforce,
        })
    }

    /// The policy sets as text, without versions, which are those of the running kernel. A single set for any supply is
    /// its own text.
    pub fn format_sets_without_versions(&self) -> String {
        let sets = [
            ("", &self.any_supply),
            ("on mains ", &self.mains),
            ("on battery ", &self.battery),
        ];
        let texts = sets.iter().filter_map(|(supply, set)| {
            Some(format!(
                "{supply}{}",
                format_set_without_versions(set.as_ref()?)
            ))
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The text of the file of persistent settings, comments included.
    pub fn to_commented_text(&self) -> String {
        format!("{HEAD}\n{}", self.to_toml_without_comments())
    }

    /// Keys and values of the file of persistent settings, without comments.
    pub(crate) fn to_toml_without_comments(&self) -> String {
        let file = PersistentFile {
            policy: self.any_supply.as_ref().map(format_set_without_versions),
            mains: self.mains.as_ref().map(format_set_without_versions),
            battery: self.battery.as_ref().map(format_set_without_versions),
            cpus: self.cpus.as_deref().map(format_cpu_list_of),
            processor: self.processor.clone(),
            enforce: self.enforce,
        };
        // Texts can always be written as TOML.
        toml::to_string(&file).unwrap_or_default()
    }

    /// Writes the file of persistent settings. After a crash at any moment the old or the new file is there, whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_file(&self, system: &System) -> Result<(), SettingsError> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let folder = config_folder::open_config_folder(system.root(), true).and_then(|folder| {
            folder.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
        });
        folder
            .and_then(|folder| {
                store::replace_file_durably_in(
                    &folder,
                    FILE,
                    self.to_commented_text().as_bytes(),
                    mode,
                )
            })
            .map_err(|error| {
                persistent_file_error(
                    &Self::file_path(system),
                    format!("cannot be written: {error}"),
                )
            })
    }

    /// Removes the file of persistent settings. Returns whether there was one.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove_file(system: &System) -> Result<bool, SettingsError> {
        config_folder::remove_config_file(system.root(), FILE).map_err(|error| {
            persistent_file_error(
                &Self::file_path(system),
                format!("cannot be removed: {error}"),
            )
        })
    }

    /// Plans the settings of this machine for its power supply of now. The sets for other supplies are checked, too.
    ///
    /// # Errors
    /// As of [`PersistentSettings::plan_for_supply`].
    pub fn plan_for_present_supply(&self, system: &System) -> Result<SettingsPlan, SettingsError> {
        for supply in PowerSupply::ALL {
            self.plan_for_supply(system, supply)?;
        }
        self.plan_for_supply(system, PowerSupply::read(system.root()))
    }

    /// Plans the settings of this machine for a power supply; empty without a set for that.
    ///
    /// # Errors
    /// The machine is another one, cannot follow a policy, or the settings would end with the process.
    pub fn plan_for_supply(
        &self,
        system: &System,
        supply: PowerSupply,
    ) -> Result<SettingsPlan, SettingsError> {
        let found = read_processor_name(system);
        if let Some(expected) = &self.processor
            && found.as_ref() != Some(expected)
        {
            let here = found.as_deref().unwrap_or("of unknown name");
            return Err(persistent_file_error(
                &Self::file_path(system),
                format!(
                    "made for the processor {expected}, but this one is {here}; `wakepath apply --persist{}` makes it anew",
                    system.root().command_line_option()
                ),
            ));
        }
        let targets = Targets {
            cpus: self.cpus.clone(),
            ..Targets::default()
        };
        let Some(set) = self.set_for_supply_or_any(supply) else {
            return Ok(SettingsPlan::default());
        };
        let plan =
            SettingsPlan::from_wanted(system, policy::resolve_to_settings(system, set, &targets)?)?;
        plan.check_outlives_process()?;
        Ok(plan)
    }
}

fn parse_nonempty_set(toml_key: &str, text: Option<String>) -> Result<Option<PolicySet>, String> {
    let Some(text) = text else {
        return Ok(None);
    };
    let set: PolicySet = text.parse().map_err(|e| format!("{toml_key}: {e}"))?;
    if set.is_empty() {
        return Err(format!(
            "{toml_key}: it names no policy; name one, as in {toml_key} = \"teo\""
        ));
    }
    Ok(Some(set))
}

fn format_cpu_list_of(cpus: &[usize]) -> String {
    let numbers: Vec<u32> = cpus.iter().map(|cpu| *cpu as u32).collect();
    wakepath_units::cpus::format_cpu_list(&numbers)
}

/// A policy set as text, without versions.
fn format_set_without_versions(set: &PolicySet) -> String {
    let profile = set.profile().map(ToString::to_string);
    let policies = set.policies().iter().map(format_policy_without_version);
    profile
        .into_iter()
        .chain(policies)
        .collect::<Vec<_>>()
        .join(" + ")
}

fn format_policy_without_version(policy: &PolicySpec) -> String {
    let name = policy.mechanism().name;
    let keys: Vec<String> = policy
        .given_keys()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if keys.is_empty() {
        return name.to_owned();
    }
    format!("{name}[{}]", keys.join(","))
}

/// Whether the kernel's command line leaves persistent settings out.
pub(crate) fn is_persistence_off_on_command_line(system: &System) -> bool {
    let command_line = system
        .root()
        .read_text_if_readable("proc/cmdline")
        .unwrap_or_default();
    command_line.split_whitespace().any(|word| word == OFF_WORD)
}

/// Name of the machine's processor; `None` where the kernel does not tell.
fn read_processor_name(system: &System) -> Option<String> {
    let name = MachineClass::read(system.root()).processor.name;
    (!name.is_empty()).then_some(name)
}

fn unreadable_file_error(path: &std::path::Path, error: &std::io::Error) -> SettingsError {
    persistent_file_error(path, format!("cannot be read: {error}"))
}

fn persistent_file_error(path: &std::path::Path, message: String) -> SettingsError {
    SettingsError::Persistent {
        path: path.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let settings = PersistentSettings {
            any_supply: Some("teo + cpu-latency[limit=20us,cpus=all]".parse().unwrap()),
            mains: None,
            battery: Some("menu + epp[value=power]".parse().unwrap()),
            cpus: Some(vec![0, 1, 2, 8]),
            processor: Some("A \"processor\"".to_owned()),
            enforce: true,
        };
        assert_eq!(
            PersistentSettings::parse(&settings.to_commented_text()),
            Ok(settings)
        );
    }

    #[test]
    fn mistakes_have_their_line_and_a_way_out() {
        for (text, parts) in [
            ("", &["policy"][..]),
            ("\npolcy = 'teo'", &["line 2", "did you mean `policy`"]),
            ("battery = 'tea'", &["battery", "did you mean `teo`"]),
            ("policy = 'tea'", &["policy", "did you mean `teo`"]),
            ("policy = 'teo'\ncpus = 'all'", &["cpus", "0-3,8"]),
            ("policy = 3", &["line 1", "text"]),
            ("policy = ''", &["names no policy", "policy = \"teo\""]),
            ("policy = ' '", &["names no policy"]),
        ] {
            let message = PersistentSettings::parse(text).unwrap_err();
            for part in parts {
                assert!(message.contains(part), "{text}: {message}");
            }
        }
    }
}
