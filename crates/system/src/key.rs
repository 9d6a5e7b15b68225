//! A setting and its place: `idle-governor`, `cpu-latency` on CPU 3, `apst` on `nvme0`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::setting::{self, SettingInfo, SettingScope};

/// The part of a machine that a setting belongs to. The order is the order of writes among settings of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// The whole machine.
    System,
    /// A CPU.
    Cpu(usize),
    /// An idle state on a CPU.
    IdleState {
        /// The CPU.
        cpu: usize,
        /// Index of the state.
        state: usize,
    },
    /// A frequency policy: CPUs with a shared clock, named after the first.
    CpufreqPolicy(usize),
    /// A drive's controller, such as `nvme0`.
    Drive(String),
    /// A disk by the kernel's name, such as `nvme0n1` or `sda`.
    Disk(String),
    /// An interrupt by its number.
    Interrupt(u32),
}

impl At {
    /// The kind of part that the place is: system, CPU, idle state, policy or drive.
    pub const fn scope(&self) -> SettingScope {
        match self {
            Self::System => SettingScope::System,
            Self::Cpu(_) => SettingScope::Cpu,
            Self::IdleState { .. } => SettingScope::IdleState,
            Self::CpufreqPolicy(_) => SettingScope::CpufreqPolicy,
            Self::Drive(_) => SettingScope::Drive,
            Self::Disk(_) => SettingScope::Disk,
            Self::Interrupt(_) => SettingScope::Interrupt,
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Cpu(cpu) => write!(f, "cpu{cpu}"),
            Self::IdleState { cpu, state } => write!(f, "cpu{cpu}/state{state}"),
            Self::CpufreqPolicy(policy) => write!(f, "policy{policy}"),
            Self::Drive(name) | Self::Disk(name) => f.write_str(name),
            Self::Interrupt(number) => write!(f, "irq{number}"),
        }
    }
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "system" {
            return Ok(Self::System);
        }
        if let Some((cpu, state)) = text.split_once('/')
            && let (Some(cpu), Some(state)) = (
                parse_number_after_prefix(cpu, "cpu"),
                parse_number_after_prefix(state, "state"),
            )
        {
            return Ok(Self::IdleState { cpu, state });
        }
        if let Some(cpu) = parse_number_after_prefix(text, "cpu") {
            return Ok(Self::Cpu(cpu));
        }
        if let Some(policy) = parse_number_after_prefix(text, "policy") {
            return Ok(Self::CpufreqPolicy(policy));
        }
        if let Some(number) = parse_number_after_prefix(text, "irq") {
            let number = u32::try_from(number).map_err(|_| format!("'{text}' is no interrupt"))?;
            return Ok(Self::Interrupt(number));
        }
        // The drive's number becomes part of a path.
        if parse_number_after_prefix(text, "nvme").is_some() {
            return Ok(Self::Drive(text.to_owned()));
        }
        if is_disk_name(text) {
            return Ok(Self::Disk(text.to_owned()));
        }
        Err(format!(
            "'{text}' is not system, cpuN, cpuN/stateN, policyN, irqN, nvmeN or a disk"
        ))
    }
}

/// Whether a text can be the kernel's name of a disk: small letters and digits. The name becomes part of a path.
fn is_disk_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// The number after a prefix, such as 3 in `cpu3`.
fn parse_number_after_prefix(text: &str, prefix: &str) -> Option<usize> {
    text.strip_prefix(prefix)?.parse().ok()
}

/// A setting of a certain CPU, policy or drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingKey {
    /// The setting.
    pub setting: &'static SettingInfo,
    /// The CPU, policy or drive that the setting belongs to.
    pub at: At,
}

impl SettingKey {
    /// The key of a setting at a place. `None` if the setting belongs to another kind of place.
    pub fn for_matching_scope(setting: &'static SettingInfo, at: At) -> Option<Self> {
        (setting.scope == at.scope()).then_some(Self { setting, at })
    }

    /// Path of the setting's file, below the machine's root.
    pub fn relative_path(&self) -> String {
        let (number, state) = match &self.at {
            At::System => (String::new(), String::new()),
            At::Cpu(n) | At::CpufreqPolicy(n) => (n.to_string(), String::new()),
            At::IdleState { cpu, state } => (cpu.to_string(), state.to_string()),
            At::Drive(name) | At::Disk(name) => (name.clone(), String::new()),
            At::Interrupt(number) => (number.to_string(), String::new()),
        };
        self.setting
            .path
            .replace("{n}", &number)
            .replace("{state}", &state)
    }

    /// Path of another file in the folder of the setting's file.
    pub fn sibling_file_path(&self, file: &str) -> String {
        let path = self.relative_path();
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{directory}/{file}")
    }
}

impl fmt::Display for SettingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            At::System => f.write_str(self.setting.name),
            _ => write!(f, "{}:{}", self.setting.name, self.at),
        }
    }
}

impl FromStr for SettingKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, place) = text.split_once(':').unwrap_or((text, "system"));
        let setting = setting::find_setting(name).ok_or_else(|| format!("no setting '{name}'"))?;
        Self::for_matching_scope(setting, place.parse()?)
            .ok_or_else(|| format!("{name} is not a setting of {place}"))
    }
}

impl Serialize for SettingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SettingKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_print_and_parse_back() {
        for text in [
            "idle-governor",
            "cpu-latency:cpu3",
            "idle-state-off:cpu0/state2",
            "frequency-max:policy4",
            "apst:nvme0",
            "rq-affinity:nvme0n1",
            "read-ahead:sda",
            "irq-affinity:irq24",
        ] {
            assert_eq!(text.parse::<SettingKey>().unwrap().to_string(), text);
        }
        assert!("apst:cpu0".parse::<SettingKey>().is_err());
        assert!("apst:nvme0/../../etc".parse::<SettingKey>().is_err());
        assert!("apst:nvme0n1".parse::<SettingKey>().is_err());
        assert!("rq-affinity:nvme0".parse::<SettingKey>().is_err());
        assert!("rq-affinity:../etc".parse::<SettingKey>().is_err());
        assert!("nothing".parse::<SettingKey>().is_err());
    }

    proptest! {
        #[test]
        fn no_key_leads_out_of_the_root(text in "\\PC{0,40}", name in 0..setting::SETTINGS.len()) {
            let text = format!("{}:{text}", setting::SETTINGS[name].name);
            if let Ok(key) = text.parse::<SettingKey>() {
                prop_assert!(!key.relative_path().contains(".."), "{}", key.relative_path());
                prop_assert!(!key.relative_path().starts_with('/'));
            }
        }
    }
}
