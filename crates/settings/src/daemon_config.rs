//! The daemon's configuration: `/etc/wakepath/daemon.toml`.
//!
//! Every key has a default, so that an empty file is valid. The structures here are all that can be expressed: no key leads
//! to thermal or critical limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Kind;
use wakepath_policies::psd::{LeaseRule, PsdSettings};
use wakepath_policies::spec::PolicySpec;
use wakepath_units::spelling::toml_error_with_key;
use wakepath_units::{Nanoseconds, quantity};

use crate::trusted_file::TrustedFileError;

/// Path of the daemon's configuration.
pub const PATH: &str = "/etc/wakepath/daemon.toml";
/// The daemon's configuration as shipped: every key with its default, and a comment.
pub const EXAMPLE: &str = include_str!("../data/daemon.toml");
/// Size limit for configurations of the daemon, in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 20;
/// Longest lease that a configuration may ask for. A longer lease may as well be a permanent limit.
const LONGEST_LEASE_MS: u32 = 10_000;

/// Why a configuration of the daemon is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The configuration file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// Path of the configuration file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Somebody else than root or this user could have written the configuration file.
    #[error("{}: {why}; the daemon runs as root and would do what it says", path.display())]
    Unsafe {
        /// Path of the configuration file.
        path: PathBuf,
        /// Why the configuration file is not trusted.
        why: &'static str,
    },
    /// A line of the configuration has a mistake.
    #[error("{origin}:{line}: {message}")]
    File {
        /// Name of the configuration file.
        origin: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong in the line, and what to write instead.
        message: String,
    },
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// Leases of CPUs.
    pub policy: CpuPolicy,
    /// Whether to leave leases to the kernel module `wakepath_psd` where it is loaded.
    pub kernel_module: bool,
    /// I/O boost.
    pub boost: BoostConfig,
    /// Checks of drives.
    pub drives: DrivesConfig,
    /// Profiles of drives; the first profile that fits a drive counts.
    pub drive: Vec<DriveConfig>,
    /// Conditions on latency.
    pub guard: GuardConfig,
    /// Metrics.
    pub metrics: MetricsConfig,
}

/// `[guard]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct GuardConfig {
    /// Conditions that block requests have to keep; a broken one takes the daemon's settings back.
    pub keep: Vec<ConditionText>,
    /// Whether a broken condition also takes back what `wakepath apply` has set for good.
    pub applied: bool,
}

/// A condition as it was written; whoever measures reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionText {
    /// The condition.
    pub text: String,
    /// Line of the condition in the configuration, counted from 1.
    pub line: usize,
}

impl<'de> Deserialize<'de> for ConditionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<String>::deserialize(deserializer)?;
        Ok(Self {
            // A place in the text until `Config::parse` makes a line of it.
            line: spanned.span().start,
            text: spanned.into_inner(),
        })
    }
}

/// `[boost]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct BoostConfig {
    /// When to boost.
    pub mode: BoostMode,
}

/// When bursts of I/O raise the minimum performance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoostMode {
    /// The daemon boosts where the kernel has no I/O boost. A boost of the kernel that is off is switched on.
    Auto,
    /// The daemon boosts wherever there are frequency limits.
    On,
    /// Never.
    #[default]
    Off,
}

/// `[drives]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct DrivesConfig {
    /// How often a drive in use is asked for its table.
    pub check: Interval,
}

/// `[[drive]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriveConfig {
    /// Pattern for the drive's model, with `*` and `?`.
    #[serde(default = "pattern_for_anything")]
    pub model: String,
    /// Pattern for the drive's serial number, with `*` and `?`.
    #[serde(default = "pattern_for_anything")]
    pub serial: String,
    /// Policy for the drive's APST table on mains power.
    pub ac: ApstPolicy,
    /// Policy for the drive's APST table on battery; absent: as on mains power.
    pub battery: Option<ApstPolicy>,
    /// Where the idle times in the drive's table come from.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// Where the idle times in an APST table come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timeouts {
    /// From the policy.
    #[default]
    Policy,
    /// Idle times follow the observed gaps between I/Os.
    Observed,
}

/// `[metrics]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct MetricsConfig {
    /// The port on 127.0.0.1 at which metrics are served; 0: none.
    pub port: u16,
    /// The Unix socket at which metrics are served.
    #[serde(deserialize_with = "deserialize_absolute_path_or_none")]
    pub socket: Option<PathBuf>,
    /// The file that metrics are written to.
    #[serde(deserialize_with = "deserialize_prom_file_or_none")]
    pub textfile: Option<PathBuf>,
    /// Whether the latency of block requests is counted by part.
    pub latency: bool,
}

/// The policies that CPUs get while the daemon runs: `["psd[timeout=3ms,ceiling=C1E]"]`. Other policies stay
/// without a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPolicy(PolicySet);

/// Time between two runs of a repeated task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

/// A policy that makes APST tables, such as `apst[rule=legacy]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApstPolicy(pub PolicySet);

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: CpuPolicy(
                parse_lease_policy_for_daemon("psd")
                    .map_or_else(|_| PolicySet::default(), Into::into),
            ),
            kernel_module: true,
            boost: BoostConfig::default(),
            drives: DrivesConfig::default(),
            drive: Vec::new(),
            guard: GuardConfig::default(),
            metrics: MetricsConfig::default(),
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
    /// Reads the daemon's configuration from a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Config::parse`].
    pub fn read_file(path: &Path) -> Result<Self, ConfigError> {
        let text =
            crate::trusted_file::read_trusted_text_file(path, MAX_BYTES).map_err(|error| {
                match error {
                    TrustedFileError::Read(source) => ConfigError::Read {
                        path: path.to_owned(),
                        source,
                    },
                    TrustedFileError::Unsafe(why) => ConfigError::Unsafe {
                        path: path.to_owned(),
                        why,
                    },
                }
            })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses a configuration of the daemon; `origin` is its name in messages.
    ///
    /// # Errors
    /// No TOML, keys that do not exist, values that are not possible.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            ConfigError::File {
                origin: origin.to_owned(),
                line: line_at_place(text, at),
                message: toml_error_with_key(e.message(), text, at),
            }
        })?;
        for condition in &mut config.guard.keep {
            condition.line = line_at_place(text, condition.line);
        }
        Ok(config)
    }
}

/// Line, counted from 1, of a place in a text in bytes.
fn line_at_place(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    before.matches('\n').count() + 1
}

fn deserialize_absolute_path_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    deserialize_by_parsing(deserializer, |text| match text {
        "" => Ok(None),
        path if path.starts_with('/') => Ok(Some(PathBuf::from(path))),
        path => Err(format!("`{path}`: expected a path that begins with /")),
    })
}

fn deserialize_prom_file_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    let path = deserialize_absolute_path_or_none(deserializer)?;
    match &path {
        Some(file) if file.extension().is_none_or(|end| end != "prom") => {
            Err(serde::de::Error::custom(format!(
                "`{}`: node_exporter reads files that end in .prom",
                file.display()
            )))
        }
        _ => Ok(path),
    }
}

fn pattern_for_anything() -> String {
    "*".to_owned()
}

/// Deserializes a value by parsing its text.
fn deserialize_by_parsing<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

/// The text of a configuration file for leases alone.
///
/// # Errors
/// The daemon cannot give such leases; the message says why.
pub fn lease_only_config_text(leases: &PolicySpec) -> Result<String, String> {
    let text = leases.to_string();
    parse_lease_policy_for_daemon(&text)?;
    let quoted = toml::Value::String(text);
    Ok(format!("policy = [{quoted}]\n\n[boost]\nmode = \"off\"\n"))
}

impl CpuPolicy {
    /// The policies.
    pub fn as_policy_set(&self) -> &PolicySet {
        &self.0
    }

    /// The leases that the daemon gives to CPUs; `None`: no leases.
    pub fn requested_lease_settings(&self) -> Option<&PsdSettings> {
        self.0.psd().filter(|psd| psd.timeout_ms > 0)
    }
}

/// A policy that the daemon can follow for CPUs.
struct CpuPolicySpec(PolicySpec);

impl<'de> Deserialize<'de> for CpuPolicySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_by_parsing(deserializer, |text| {
            parse_lease_policy_for_daemon(text).map(Self)
        })
    }
}

impl<'de> Deserialize<'de> for CpuPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let policies = Vec::<CpuPolicySpec>::deserialize(deserializer)?;
        PolicySet::new(policies.into_iter().map(|policy| policy.0))
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

fn parse_lease_policy_for_daemon(text: &str) -> Result<PolicySpec, String> {
    let spec: PolicySpec = text.parse().map_err(|e| format!("{e}"))?;
    let psd = match spec.kind() {
        Kind::Psd => spec.as_psd_settings().map_err(|e| e.to_string())?,
        Kind::Apst => {
            return Err(format!(
                "`{spec}` is for drives: write it as `ac` of a [[drive]]"
            ));
        }
        _ => {
            return Err(format!(
                "the daemon gives leases, psd[...]; `wakepath apply '{spec}'` needs no process"
            ));
        }
    };
    let rule = spec.given_keys().find(|(key, _)| *key == "rule");
    if rule.is_some() && psd.rule != LeaseRule::Daemon {
        return Err(format!(
            "`{spec}`: the daemon's leases follow rule=daemon; leave `rule` out"
        ));
    }
    if psd.timeout_ms > LONGEST_LEASE_MS {
        return Err(format!(
            "`{spec}`: a lease lasts 0ms (none) to {LONGEST_LEASE_MS}ms"
        ));
    }
    spec.with_key("rule", "daemon").map_err(|e| e.to_string())
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const LEAST: Duration = Duration::from_secs(1);
        const MOST: Duration = Duration::from_secs(86_400);
        deserialize_by_parsing(deserializer, |text| {
            let time = quantity::parse_time(text).map(Nanoseconds::as_duration);
            let within = time.filter(|time| (LEAST..=MOST).contains(time));
            within.map(Self).ok_or_else(|| {
                format!("`{text}` is not possible; expected a time from {LEAST:?} to {MOST:?}, such as \"60s\"")
            })
        })
    }
}

impl<'de> Deserialize<'de> for ApstPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_by_parsing(deserializer, |text| {
            let spec: PolicySpec = text.parse().map_err(|e| format!("`{text}`: {e}"))?;
            spec.as_apst_settings()
                .map_err(|e| format!("`{text}`: {e}"))?;
            Ok(Self(spec.into()))
        })
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
    fn a_condition_knows_its_line() {
        let text = "[guard]\nkeep = [\n  'p99_us < 150',\n  'x',\n]\n";
        let config = Config::parse("x", text).unwrap();
        let lines: Vec<usize> = config.guard.keep.iter().map(|c| c.line).collect();
        assert_eq!(lines, [3, 4]);
        assert_eq!(config.guard.keep[0].text, "p99_us < 150");
    }

    fn leases(policy: &str) -> Option<PsdSettings> {
        let config = Config::parse("x", &format!("policy = [{policy}]")).unwrap();
        config.policy.requested_lease_settings().cloned()
    }

    #[test]
    fn leases_follow_the_daemons_rule() {
        use wakepath_policies::psd::LeaseCeiling;

        let default = Config::default();
        assert_eq!(
            leases("'psd'").as_ref(),
            default.policy.requested_lease_settings()
        );
        let psd = leases("'psd[timeout=5ms]'").unwrap();
        assert_eq!(
            (psd.timeout_ms, psd.start_after, psd.rule, psd.ceiling),
            (5, 2, LeaseRule::Daemon, LeaseCeiling::Auto)
        );
        let psd = leases("'psd[ceiling=C1E,start_after=1,rule=daemon]'").unwrap();
        assert_eq!(
            (psd.start_after, psd.ceiling),
            (1, LeaseCeiling::Named("C1E".to_owned()))
        );
        assert_eq!(leases(""), None);
        assert_eq!(leases("'psd[timeout=0ms]'"), None);
    }

    #[test]
    fn every_mistake_has_its_line_and_a_way_out() {
        for (text, line, parts) in [
            (
                "polcy = ['psd']",
                1,
                &["unknown key `polcy`", "did you mean `policy`"][..],
            ),
            ("[psd]\n", 1, &["unknown key `psd`", "policy"]),
            (
                "\npolicy = [\n  'psd[timeout=3]',\n]",
                2,
                &["policy", "psd[timeout=3]", "whole milliseconds"],
            ),
            ("\npolicy = ['psd[timeout=11s]']", 2, &["10000ms"]),
            (
                "policy = ['psd[timeout=2500us]']",
                1,
                &["whole milliseconds"],
            ),
            (
                "policy = ['psd[ceiling=20]']",
                1,
                &["policy", "ceiling=20", "20us", "C1E"],
            ),
            ("policy = ['psd[ceiling=]']", 1, &["20us"]),
            (
                "policy = ['psd[grant=all]']",
                1,
                &["completion or issue or both"],
            ),
            ("policy = ['psd[start_after=0]']", 1, &["1 to 1000"]),
            ("policy = ['psd[start-after=1]']", 1, &["start_after"]),
            ("policy = ['psd[rule=patch]']", 1, &["leave `rule` out"]),
            ("policy = ['psd', 'psd']", 1, &["at most one"]),
            ("policy = ['menu']", 1, &["wakepath apply 'menu@6.12'"]),
            ("policy = ['apst']", 1, &["[[drive]]"]),
            ("policy = 'psd'", 1, &["list"]),
            ("policy = [3]", 1, &["the number `3` instead of a text"]),
            ("[boost]\nmode = 'yes'", 2, &["auto", "on"]),
            ("[metrics]\nport = 65536", 2, &["65536"]),
            (
                "[metrics]\naddress = '0.0.0.0'",
                2,
                &["unknown key `address`"],
            ),
            ("[metrics]\nsocket = 'x.sock'", 2, &["begins with /"]),
            ("[metrics]\n\ntextfile = '/x/y.txt'", 3, &["end in .prom"]),
            ("[guard]\nkeep = 'p99_us < 5'", 2, &["list"]),
            ("[guard]\nkeeps = []", 2, &["did you mean `keep`"]),
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
                format!("policy = ['psd[{key}=1]']"),
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
            let _ = Config::parse("x", &format!("policy = ['psd[timeout={text}]']"));
            let _ = Config::parse("x", &format!("policy = ['psd[ceiling={text}]']"));
        }
    }
}
