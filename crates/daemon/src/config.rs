//! The daemon's configuration: `/etc/wakepath/daemon.toml`.
//!
//! Every key has a default, so that an empty file is a valid one. What is not in these structures cannot be expressed:
//! there is no way to thermal or critical limits.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use wakepath_live::policy::names::{self, LiveSetting};
use wakepath_policies::psd::Grant;
use wakepath_policies::spec::PolicySpec;
use wakepath_units::spelling::toml_error;
use wakepath_units::{Nanoseconds, quantity};

/// Where the daemon looks for it.
pub const PATH: &str = "/etc/wakepath/daemon.toml";
/// The one that is shipped: every key with its default, and a comment.
pub const EXAMPLE: &str = include_str!("../data/daemon.toml");
/// No configuration is longer.
const MAX_BYTES: u64 = 1 << 20;
/// A lease shorter than the time to set it is none; longer, and the limit may as well stay.
const TIMEOUTS: (Duration, Duration) = (Duration::from_micros(500), Duration::from_secs(10));

/// Why a configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody else could have written it.
    #[error("{}: {why}; the daemon runs as root and would do what it says", path.display())]
    Unsafe {
        /// Which.
        path: PathBuf,
        /// Why not to trust it.
        why: &'static str,
    },
    /// Something in it.
    #[error("{origin}:{line}: {message}")]
    File {
        /// Name of the file.
        origin: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong and what would be right.
        message: String,
    },
}

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// Power-sleep demotion prevention.
    pub psd: PsdConfig,
    /// I/O boost.
    pub boost: BoostConfig,
    /// How drives are looked after.
    pub drives: DrivesConfig,
    /// Profiles of drives; the first that fits a drive counts.
    pub drive: Vec<DriveConfig>,
    /// Metrics.
    pub metrics: MetricsConfig,
}

/// `[psd]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct PsdConfig {
    /// Leases are given.
    pub enabled: bool,
    /// How long a lease outlasts the last I/O.
    pub timeout: LeaseTime,
    /// What a CPU with a lease may do.
    pub ceiling: Ceiling,
    /// What counts: completions, as in the proposed kernel patch, issues, or both.
    #[serde(deserialize_with = "grant")]
    pub grant: Grant,
    /// With which I/O of a burst the lease begins.
    pub start_after: Count,
    /// Leave leases to the kernel module `wakepath_psd` where it is loaded.
    pub kernel_module: bool,
}

/// `[boost]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct BoostConfig {
    /// Whether.
    pub mode: BoostMode,
}

/// When bursts of I/O raise the minimum performance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoostMode {
    /// Where the kernel has no I/O boost; where it has one that is switched off, that is switched on.
    Auto,
    /// Wherever there are frequency limits.
    On,
    /// Never.
    #[default]
    Off,
}

/// `[drives]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct DrivesConfig {
    /// How often a drive that is in use is asked whether its table is still there.
    pub check: Interval,
}

/// `[[drive]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriveConfig {
    /// Pattern for the model, with `*` and `?`.
    #[serde(default = "anything")]
    pub model: String,
    /// Pattern for the serial number.
    #[serde(default = "anything")]
    pub serial: String,
    /// The table on mains power.
    pub ac: ApstPolicy,
    /// The table on battery; absent: the same.
    pub battery: Option<ApstPolicy>,
    /// Where the timeouts come from.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// Where the timeouts of a table come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timeouts {
    /// From the policy.
    #[default]
    Policy,
    /// From the idle gaps that were seen.
    Observed,
}

/// `[metrics]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct MetricsConfig {
    /// The port on 127.0.0.1; 0: none.
    pub port: u16,
}

/// How long a lease outlasts the last I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTime(pub Duration);

/// How often something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

/// A small number of I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u32);

/// What a CPU with a lease may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ceiling {
    /// Sleep in C1 and C1E.
    #[default]
    Auto,
    /// Sleep in states with at most this exit latency in us; 0: poll.
    Latency(u64),
    /// Sleep in this state, by the driver's name for it, and shallower ones.
    State(String),
}

/// A policy that makes APST tables, such as `apst[rule=legacy]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApstPolicy(pub String);

impl Default for PsdConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            timeout: LeaseTime(Duration::from_millis(3)),
            ceiling: Ceiling::Auto,
            grant: Grant::Completion,
            start_after: Count(2),
            kernel_module: true,
        }
    }
}

impl Default for BoostConfig {
    fn default() -> Self {
        Self {
            mode: BoostMode::Auto,
        }
    }
}

impl Default for DrivesConfig {
    fn default() -> Self {
        Self {
            check: Interval(Duration::from_secs(60)),
        }
    }
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Config::parse`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let cannot = |source| ConfigError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(cannot)?;
        let about = file.metadata().map_err(cannot)?;
        let unsafe_file = |why| ConfigError::Unsafe {
            path: path.to_owned(),
            why,
        };
        if about.mode() & 0o002 != 0 {
            return Err(unsafe_file("everybody may write it"));
        }
        if ![0, rustix::process::geteuid().as_raw()].contains(&about.uid()) {
            return Err(unsafe_file("it belongs to another user"));
        }
        let mut text = String::new();
        let mut limited = file.take(MAX_BYTES + 1);
        limited.read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > MAX_BYTES {
            let most = format!("more than {MAX_BYTES} bytes");
            return Err(cannot(std::io::Error::other(most)));
        }
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses a configuration; `origin` is its name in messages.
    ///
    /// # Errors
    /// No TOML, keys that do not exist, values that are not possible.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            let before = text.get(..at).unwrap_or(text);
            ConfigError::File {
                origin: origin.to_owned(),
                line: before.matches('\n').count() + 1,
                message: toml_error(e.message(), text, at),
            }
        })
    }
}

fn anything() -> String {
    "*".to_owned()
}

/// A value that is written as a text, or what it may be.
fn from_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

fn grant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Grant, D::Error> {
    from_text(deserializer, |text| match text {
        "completion" => Ok(Grant::Completion),
        "issue" => Ok(Grant::Issue),
        "both" => Ok(Grant::Both),
        _ => Err(format!(
            "`{text}` is not possible; expected completion, issue or both"
        )),
    })
}

fn time(text: &str, (least, most): (Duration, Duration)) -> Result<Duration, String> {
    let within = |time: &Duration| (least..=most).contains(time);
    quantity::time(text).map(Nanoseconds::as_duration).filter(within).ok_or_else(|| {
        format!("`{text}` is not possible; expected a time from {least:?} to {most:?}, such as \"{least:?}\"")
    })
}

impl<'de> Deserialize<'de> for LeaseTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |text| time(text, TIMEOUTS).map(Self))
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
        from_text(deserializer, |text| time(text, RANGE).map(Self))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        if (1..=1000).contains(&number) {
            return Ok(Self(number));
        }
        Err(serde::de::Error::custom(format!(
            "{number} is not possible; expected 1 to 1000"
        )))
    }
}

impl<'de> Deserialize<'de> for Ceiling {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |text| {
            if text == "auto" {
                return Ok(Self::Auto);
            }
            // No driver has a state of such a name.
            if text.parse::<u64>().is_ok() {
                return Err(format!(
                    "`{text}` has no unit; expected `{text}us`, `auto`, or a state such as C1E"
                ));
            }
            let name = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
            let own = if text.chars().all(name) {
                names::parse(&format!("idle-states[ceiling={text}]"))
            } else {
                Ok(None)
            };
            match own {
                Ok(Some(LiveSetting::IdleStates(names::Ceiling::Latency(us)))) => {
                    Ok(Self::Latency(us))
                }
                Ok(Some(LiveSetting::IdleStates(names::Ceiling::State(name)))) => {
                    Ok(Self::State(name))
                }
                _ => Err(format!(
                    "`{text}` is not possible; expected auto, a latency such as 20us, or a state such as C1E"
                )),
            }
        })
    }
}

impl<'de> Deserialize<'de> for ApstPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |text| {
            let spec: PolicySpec = text.parse().map_err(|e| format!("`{text}`: {e}"))?;
            spec.apst().map_err(|e| format!("`{text}`: {e}"))?;
            Ok(Self(text.to_owned()))
        })
    }
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Latency(us) => write!(f, "{us}us"),
            Self::State(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_has_every_key_with_its_default() {
        let parsed = Config::parse("example", EXAMPLE).unwrap();
        assert_eq!(parsed, Config::default());
        // Keys of the drive profiles are in comments; with the marks taken away they are read as well.
        let profile: String = EXAMPLE
            .lines()
            .skip_while(|line| *line != "#[[drive]]")
            .filter_map(|line| line.strip_prefix('#'))
            .filter(|line| !line.starts_with(' '))
            .fold(String::new(), |text, line| text + line + "\n");
        let parsed = Config::parse("example", &profile).unwrap();
        assert_eq!(parsed.drive.len(), 1, "{profile}");
        assert!(parsed.drive[0].battery.is_some());
    }

    #[test]
    fn nothing_is_a_configuration() {
        assert_eq!(Config::parse("x", "").unwrap(), Config::default());
    }

    #[test]
    fn every_mistake_has_its_line_and_a_way_out() {
        for (text, line, parts) in [
            (
                "[psd]\ntimout = '3ms'",
                2,
                &["unknown key `timout`", "did you mean `timeout`"][..],
            ),
            ("[psb]\n", 1, &["unknown key `psb`", "`psd`"]),
            (
                "[psd]\n\ntimeout = '3'",
                3,
                &["`timeout`: `3`", "500µs to 10s"],
            ),
            ("psd = 1", 1, &["`psd`: the number `1` instead of a table"]),
            (
                "[psd]\ntimeout = 3",
                2,
                &["`timeout`: the number `3` instead of a text"],
            ),
            ("[psd]\nceiling = 'none'", 2, &["auto", "20us"]),
            ("[psd]\nceiling = ']'", 2, &["auto", "20us"]),
            ("[psd]\nceiling = '20'", 2, &["no unit", "`20us`"]),
            ("[psd]\ngrant = 'all'", 2, &["completion, issue or both"]),
            ("[psd]\nstart-after = 0", 2, &["1 to 1000"]),
            ("[boost]\nmode = 'yes'", 2, &["auto", "on"]),
            ("[metrics]\nport = 65536", 2, &["65536"]),
            (
                "[metrics]\naddress = '0.0.0.0'",
                2,
                &["unknown key `address`"],
            ),
            ("[[drive]]\nmodel = 'x'", 1, &["missing key `ac`"]),
            ("[[drive]]\nac = 'menu'", 2, &["menu"]),
            (
                "[[drive]]\nac = 'apst[rule=old]'",
                2,
                &["current or legacy"],
            ),
            ("[drives]\ncheck = '0s'", 2, &["1s to"]),
            ("psd", 1, &[]),
        ] {
            let message = Config::parse("d.toml", text).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("d.toml:{line}: ")),
                "{text}: {message}"
            );
            for part in parts {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }

    #[test]
    fn nothing_about_temperatures_can_be_said() {
        for key in [
            "thermal",
            "critical",
            "trip-point",
            "max-temperature",
            "powercap",
        ] {
            for text in [
                format!("{key} = 1"),
                format!("[psd]\n{key} = 1"),
                format!("[drives]\n{key} = 1"),
            ] {
                Config::parse("d.toml", &text).unwrap_err();
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = Config::parse("x", &text);
            let _ = Config::parse("x", &format!("[psd]\ntimeout = '{text}'"));
            let _ = Config::parse("x", &format!("[psd]\nceiling = '{text}'"));
        }
    }
}
