//! Settings that come back at every boot: `/etc/wakepath/settings.toml`.

use std::path::PathBuf;

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::System;
use wakepath_system::capture::class::MachineClass;
use wakepath_units::spelling::toml_error_with_key;

use crate::trusted_file::{self, TrustedFileError};
use crate::{PowerSupply, SettingsError, SettingsPlan, Targets, config_folder, policy, store};

/// Name of the file in its folder.
const FILE: &str = "settings.toml";
/// Size limit of the file.
const MAX_BYTES: u64 = 1 << 16;
/// Word of the kernel's command line that leaves persistent settings out.
pub const OFF_WORD: &str = "wakepath.persist=0";

/// Policy sets that are applied at every boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentSettings {
    /// The set for a supply without a set of its own.
    pub any_supply: Option<PolicySet>,
    /// The set for mains.
    pub mains: Option<PolicySet>,
    /// The set for the battery.
    pub battery: Option<PolicySet>,
    /// CPUs, for all sets; `None`: all.
    pub cpus: Option<Vec<usize>>,
    /// Processor that the set was made for; on another one it is not applied. `None`: any.
    pub processor: Option<String>,
}

/// The file as it is written.
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
}

/// Head of a new file.
const HEAD: &str = "\
# Settings that are applied at every boot. `wakepath apply --check` checks this file, `wakepath restore` removes it.
# policy: a policy set, as for `wakepath apply`. mains, battery: the set for that power supply instead.
# cpus: a list such as 0-3,8. processor: only where this one is found.
";

impl PersistentSettings {
    /// Makes a set persistent for the processor of this machine, whatever its power supply.
    pub fn for_machine(system: &System, set: PolicySet, cpus: Option<Vec<usize>>) -> Self {
        Self {
            any_supply: Some(set),
            mains: None,
            battery: None,
            cpus,
            processor: processor_name(system),
        }
    }

    /// Makes a set persistent for one power supply. The sets of the file for others stay.
    ///
    /// # Errors
    /// The file has a mistake, or sets for other CPUs.
    pub fn for_supply(
        system: &System,
        supply: PowerSupply,
        set: PolicySet,
        cpus: Option<Vec<usize>>,
    ) -> Result<Self, SettingsError> {
        let mut settings = match Self::load(system)? {
            Some(settings) if settings.cpus != cpus => {
                let found = settings.cpus.as_deref().map_or_else(
                    || "all CPUs".to_owned(),
                    |cpus| format!("--cpus {}", cpu_list(cpus)),
                );
                let message = format!(
                    "has a set for {found}, and all sets of it are for the same CPUs; give the same, or \
                     `wakepath restore` first"
                );
                return Err(wrong(&Self::path(system), message));
            }
            Some(settings) => settings,
            None => Self {
                any_supply: None,
                mains: None,
                battery: None,
                cpus,
                processor: None,
            },
        };
        settings.processor = processor_name(system);
        match supply {
            PowerSupply::Mains => settings.mains = Some(set),
            PowerSupply::Battery => settings.battery = Some(set),
        }
        Ok(settings)
    }

    /// The set for a power supply; `None`: with this supply everything stays as it is.
    pub fn set_for(&self, supply: PowerSupply) -> Option<&PolicySet> {
        let own = match supply {
            PowerSupply::Mains => &self.mains,
            PowerSupply::Battery => &self.battery,
        };
        own.as_ref().or(self.any_supply.as_ref())
    }

    /// Path of the file, for messages.
    pub fn path(system: &System) -> PathBuf {
        system
            .root()
            .path(&format!("{}/{FILE}", config_folder::CONFIG_FOLDER))
    }

    /// Reads the file; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, somebody else could have written it, or it has a mistake.
    pub fn load(system: &System) -> Result<Option<Self>, SettingsError> {
        let path = Self::path(system);
        let folder =
            config_folder::open(system.root(), false).map_err(|e| unreadable(&path, &e))?;
        let Some(folder) = folder else {
            return Ok(None);
        };
        let opened = wakepath_files::open_in(&folder, FILE, rustix::fs::OFlags::RDONLY);
        let file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|e| unreadable(&path, &e))?,
        };
        let about = std::fs::File::from(folder).metadata();
        let checked = about
            .map_err(TrustedFileError::Read)
            .and_then(|about| trusted_file::check_folder(&about))
            .and_then(|()| trusted_file::read_open(file, MAX_BYTES));
        let text = checked.map_err(|error| match error {
            TrustedFileError::Read(source) => unreadable(&path, &source),
            TrustedFileError::Unsafe(why) => wrong(
                &path,
                format!("{why}; wakepath runs as root at boot and would do what it says"),
            ),
        })?;
        Self::parse(&text)
            .map(Some)
            .map_err(|message| wrong(&path, message))
    }

    /// Parses the text of a file.
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
            any_supply: parse_set("policy", file.policy)?,
            mains: parse_set("mains", file.mains)?,
            battery: parse_set("battery", file.battery)?,
            cpus: cpus.transpose()?,
            processor: file.processor,
        })
    }

    /// The sets without versions, which are those of the running kernel. A single set for any supply is its own text.
    pub fn sets_text(&self) -> String {
        let sets = [
            ("", &self.any_supply),
            ("on mains ", &self.mains),
            ("on battery ", &self.battery),
        ];
        let texts = sets
            .iter()
            .filter_map(|(supply, set)| Some(format!("{supply}{}", set_text(set.as_ref()?))));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> String {
        format!("{HEAD}\n{}", self.to_toml())
    }

    /// Keys and values of the file, without comments.
    pub(crate) fn to_toml(&self) -> String {
        let file = PersistentFile {
            policy: self.any_supply.as_ref().map(set_text),
            mains: self.mains.as_ref().map(set_text),
            battery: self.battery.as_ref().map(set_text),
            cpus: self.cpus.as_deref().map(cpu_list),
            processor: self.processor.clone(),
        };
        // Texts are always TOML.
        toml::to_string(&file).unwrap_or_default()
    }

    /// Writes the file. After a crash at any moment the old or the new file is there, whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, system: &System) -> Result<(), SettingsError> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let folder = config_folder::open(system.root(), true).and_then(|folder| {
            folder.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
        });
        folder
            .and_then(|folder| store::replace_file(&folder, FILE, self.to_text().as_bytes(), mode))
            .map_err(|error| wrong(&Self::path(system), format!("cannot be written: {error}")))
    }

    /// Removes the file, which ends persistence. Returns whether there was one.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(system: &System) -> Result<bool, SettingsError> {
        config_folder::remove(system.root(), FILE)
            .map_err(|error| wrong(&Self::path(system), format!("cannot be removed: {error}")))
    }

    /// Plans the settings of this machine for its power supply of now. The sets for other supplies are checked, too.
    ///
    /// # Errors
    /// As of [`PersistentSettings::plan_for`].
    pub fn plan(&self, system: &System) -> Result<SettingsPlan, SettingsError> {
        for supply in PowerSupply::ALL {
            self.plan_for(system, supply)?;
        }
        self.plan_for(system, PowerSupply::read(system.root()))
    }

    /// Plans the settings of this machine for a power supply; empty without a set for that.
    ///
    /// # Errors
    /// The machine is another one, cannot follow a policy, or the settings would end with the process.
    pub fn plan_for(
        &self,
        system: &System,
        supply: PowerSupply,
    ) -> Result<SettingsPlan, SettingsError> {
        let found = processor_name(system);
        if let Some(expected) = &self.processor
            && found.as_ref() != Some(expected)
        {
            let here = found.as_deref().unwrap_or("of unknown name");
            return Err(wrong(
                &Self::path(system),
                format!(
                    "made for the processor {expected}, but this one is {here}; `wakepath apply --persist{}` makes it anew",
                    system.root().as_option()
                ),
            ));
        }
        let targets = Targets {
            cpus: self.cpus.clone(),
            ..Targets::default()
        };
        let Some(set) = self.set_for(supply) else {
            return Ok(SettingsPlan::default());
        };
        let plan = SettingsPlan::new(system, policy::resolve(system, set, &targets)?)?;
        plan.check_stays()?;
        Ok(plan)
    }
}

fn parse_set(key: &str, text: Option<String>) -> Result<Option<PolicySet>, String> {
    let Some(text) = text else {
        return Ok(None);
    };
    let set: PolicySet = text.parse().map_err(|e| format!("{key}: {e}"))?;
    if set.is_empty() {
        return Err(format!(
            "{key}: it names no policy; name one, as in {key} = \"teo\""
        ));
    }
    Ok(Some(set))
}

fn cpu_list(cpus: &[usize]) -> String {
    let numbers: Vec<u32> = cpus.iter().map(|cpu| *cpu as u32).collect();
    wakepath_units::cpus::format_cpu_list(&numbers)
}

/// A set without versions.
fn set_text(set: &PolicySet) -> String {
    let profile = set.profile().map(ToString::to_string);
    let policies = set.policies().iter().map(text_without_version);
    profile
        .into_iter()
        .chain(policies)
        .collect::<Vec<_>>()
        .join(" + ")
}

fn text_without_version(policy: &PolicySpec) -> String {
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
pub(crate) fn is_switched_off(system: &System) -> bool {
    let command_line = system.root().optional("proc/cmdline").unwrap_or_default();
    command_line.split_whitespace().any(|word| word == OFF_WORD)
}

/// Name of the processor; `None` where the kernel does not tell.
fn processor_name(system: &System) -> Option<String> {
    let name = MachineClass::read(system.root()).processor.name;
    (!name.is_empty()).then_some(name)
}

fn unreadable(path: &std::path::Path, error: &std::io::Error) -> SettingsError {
    wrong(path, format!("cannot be read: {error}"))
}

fn wrong(path: &std::path::Path, message: String) -> SettingsError {
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
        };
        assert_eq!(PersistentSettings::parse(&settings.to_text()), Ok(settings));
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
