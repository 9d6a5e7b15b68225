//! Policy names: `NAME@VERSION[key=value,...]`.
//!
//! One grammar names every policy everywhere: on the command line, in study files, in results. A
//! name without version means the newest one, and prints with it; settings that were given print in
//! the order in which they were given, so that a printed name parses to the same policy and prints
//! unchanged.
//!
//! ```
//! use wakepath_policies::spec::PolicySpec;
//!
//! let menu: PolicySpec = "menu".parse()?;
//! assert_eq!(menu.to_string(), "menu@6.12");
//!
//! let schedutil: PolicySpec = "schedutil[iowait_boost=off]".parse()?;
//! assert_eq!(schedutil.to_string(), "schedutil[iowait_boost=off]");
//! # Ok::<(), wakepath_policies::spec::SpecError>(())
//! ```

pub mod registry;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use wakepath_units::spelling::closest;
use wakepath_units::{Capacity, Nanoseconds};

use self::registry::{Default, KeyInfo, Kind, POLICIES, PolicyInfo, Values};
use crate::apst::{ApstQuirks, ApstRule, ApstSettings};
use crate::freq::{FreqPolicy, SchedutilSettings, iowait_boost};
use crate::idle::{HaltpollParameters, IdlePolicy, KernelVersion, OracleGoal};
use crate::poll::PollRule;
use crate::psd::{Ceiling, Grant, PsdPolicy};

/// A policy with its version and settings, as its name gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    info: &'static PolicyInfo,
    version: Option<&'static str>,
    given: Vec<(&'static KeyInfo, String)>,
}

/// A policy's settings in typed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Policy {
    /// Which idle state.
    Idle(IdlePolicy),
    /// Which frequency.
    Frequency(FreqPolicy),
    /// How deeply after I/O.
    Psd(PsdPolicy),
    /// When a drive sleeps.
    Apst(ApstSettings),
    /// How long to poll.
    Poll(PollPolicy),
}

/// The settings of the polling limit ([`crate::poll::limit`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PollPolicy {
    /// An explicit limit in us.
    pub request_us: Option<u64>,
    /// Where the limit comes from without one.
    pub rule: PollRule,
}

/// Why a text is not the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It does not have the form `NAME@VERSION[key=value,...]`.
    #[error("`{text}`: {problem}; a policy is written NAME@VERSION[key=value,...]")]
    Syntax {
        /// The whole text.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No policy has this name.
    #[error("no policy is called `{name}`; did you mean `{nearest}`? Known: {known}")]
    UnknownName {
        /// The name.
        name: String,
        /// The most similar name there is.
        nearest: &'static str,
        /// All names there are.
        known: String,
    },
    /// The policy decides something else than what is asked for.
    #[error("`{name}` is not {wanted} policy but {actual} policy; known: {known}")]
    WrongKind {
        /// The policy.
        name: String,
        /// What it should decide, with article.
        wanted: String,
        /// What it decides, with article.
        actual: String,
        /// The policies that would do.
        known: String,
    },
    /// The policy has no such version.
    #[error("`{name}` has no version `{version}`; {known}")]
    UnknownVersion {
        /// The policy.
        name: &'static str,
        /// The version.
        version: String,
        /// The versions there are.
        known: String,
    },
    /// The policy has no such setting.
    #[error("`{name}` has no setting `{key}`; {known}")]
    UnknownKey {
        /// The policy.
        name: &'static str,
        /// The setting.
        key: String,
        /// The settings there are.
        known: String,
    },
    /// A setting is given twice.
    #[error("`{name}`: the setting `{key}` is given twice")]
    DuplicateKey {
        /// The policy.
        name: &'static str,
        /// The setting.
        key: &'static str,
    },
    /// A setting cannot have this value.
    #[error("`{name}[{key}={value}]`: expected {allowed}")]
    BadValue {
        /// The policy.
        name: &'static str,
        /// The setting.
        key: &'static str,
        /// The value.
        value: String,
        /// What it may be.
        allowed: String,
    },
}

impl PolicySpec {
    /// What the registry says about this policy.
    pub fn info(&self) -> &'static PolicyInfo {
        self.info
    }

    /// What the policy decides.
    pub fn kind(&self) -> Kind {
        self.info.kind
    }

    /// The version, if the policy has versions.
    pub fn version(&self) -> Option<&'static str> {
        self.version
    }

    /// The settings that were given, in that order.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.iter().map(|(key, value)| (key.name, &**value))
    }

    /// The policy as an idle policy, or an error that says what it is instead.
    pub fn idle(&self) -> Result<IdlePolicy, SpecError> {
        match self.policy() {
            Policy::Idle(policy) => Ok(policy),
            _ => Err(self.wrong_kind(Kind::Idle)),
        }
    }

    /// The policy as a frequency policy, or an error that says what it is instead.
    pub fn frequency(&self) -> Result<FreqPolicy, SpecError> {
        match self.policy() {
            Policy::Frequency(policy) => Ok(policy),
            _ => Err(self.wrong_kind(Kind::Frequency)),
        }
    }

    /// The policy as PSD settings, or an error that says what it is instead.
    pub fn psd(&self) -> Result<PsdPolicy, SpecError> {
        match self.policy() {
            Policy::Psd(policy) => Ok(policy),
            _ => Err(self.wrong_kind(Kind::Psd)),
        }
    }

    /// The policy as APST settings, or an error that says what it is instead.
    pub fn apst(&self) -> Result<ApstSettings, SpecError> {
        match self.policy() {
            Policy::Apst(policy) => Ok(policy),
            _ => Err(self.wrong_kind(Kind::Apst)),
        }
    }

    /// The policy as polling settings, or an error that says what it is instead.
    pub fn poll(&self) -> Result<PollPolicy, SpecError> {
        match self.policy() {
            Policy::Poll(policy) => Ok(policy),
            _ => Err(self.wrong_kind(Kind::Poll)),
        }
    }

    fn wrong_kind(&self, wanted: Kind) -> SpecError {
        SpecError::WrongKind {
            name: self.to_string(),
            wanted: with_article(wanted.name()),
            actual: with_article(self.kind().name()),
            known: names(|info| info.kind == wanted),
        }
    }

    /// The policy with its settings in typed form.
    pub fn policy(&self) -> Policy {
        let version = match self.version {
            Some("6.1") => KernelVersion::V6_1,
            _ => KernelVersion::V6_12,
        };
        match self.info.name {
            "menu" => Policy::Idle(IdlePolicy::Menu(version)),
            "teo" => Policy::Idle(IdlePolicy::Teo(version)),
            "ladder" => Policy::Idle(IdlePolicy::Ladder(version)),
            "haltpoll" => Policy::Idle(IdlePolicy::Haltpoll(version, self.haltpoll())),
            "shallowest" => Policy::Idle(IdlePolicy::Shallowest),
            "deepest" => Policy::Idle(IdlePolicy::Deepest),
            "oracle" => Policy::Idle(IdlePolicy::Oracle(match self.word("goal") {
                "latency" => OracleGoal::Latency,
                _ => OracleGoal::Energy,
            })),
            "schedutil" => Policy::Frequency(FreqPolicy::Schedutil(self.schedutil())),
            "performance" => Policy::Frequency(FreqPolicy::Performance),
            "powersave" => Policy::Frequency(FreqPolicy::Powersave),
            "ondemand" => Policy::Frequency(FreqPolicy::Ondemand),
            "intel_pstate" => Policy::Frequency(FreqPolicy::IntelPstate {
                iowait_boost: self.switch("iowait_boost"),
            }),
            "intel_pstate-hwp" => Policy::Frequency(FreqPolicy::IntelPstateHwp {
                dynamic_boost: self.switch("hwp_dynamic_boost"),
                epp: self.number("epp") as u8,
            }),
            "psd" => Policy::Psd(self.psd_settings()),
            "apst" => Policy::Apst(self.apst_settings()),
            _ => Policy::Poll(PollPolicy {
                request_us: self.given_number("request_us"),
                rule: match self.word("rule") {
                    "first" => PollRule::First,
                    _ => PollRule::Current,
                },
            }),
        }
    }

    fn haltpoll(&self) -> HaltpollParameters {
        HaltpollParameters {
            guest_halt_poll_ns: self.number("guest_halt_poll_ns") as u32,
            guest_halt_poll_shrink: self.number("guest_halt_poll_shrink") as u32,
            guest_halt_poll_grow: self.number("guest_halt_poll_grow") as u32,
            guest_halt_poll_grow_start: self.number("guest_halt_poll_grow_start") as u32,
            guest_halt_poll_allow_shrink: self.switch("guest_halt_poll_allow_shrink"),
        }
    }

    fn schedutil(&self) -> SchedutilSettings {
        SchedutilSettings {
            boost: iowait_boost::Settings {
                enabled: self.switch("iowait_boost"),
                step: match self.word("iowait_boost_step") {
                    "linear" => iowait_boost::Step::Linear,
                    _ => iowait_boost::Step::Double,
                },
                cap: Capacity(self.number("iowait_boost_cap") as u32),
            },
            rate_limit: self
                .given_number("rate_limit_us")
                .map(Nanoseconds::from_micros),
        }
    }

    fn psd_settings(&self) -> PsdPolicy {
        let ceiling = self.word("ceiling");
        PsdPolicy {
            timeout_ms: registry::milliseconds(self.word("timeout")).unwrap_or(0),
            ceiling: registry::state_index(ceiling)
                .map(Ceiling::State)
                .or(registry::microseconds(ceiling)
                    .map(|us| Ceiling::Latency(Nanoseconds::from_micros(us))))
                .unwrap_or(Ceiling::Shallowest),
            grant: match self.word("grant") {
                "issue" => Grant::Issue,
                "both" => Grant::Both,
                _ => Grant::Completion,
            },
        }
    }

    fn apst_settings(&self) -> ApstSettings {
        ApstSettings {
            rule: match self.word("rule") {
                "legacy" => ApstRule::Legacy,
                _ => ApstRule::Current,
            },
            primary_timeout_ms: self.number("primary_timeout_ms"),
            secondary_timeout_ms: self.number("secondary_timeout_ms"),
            primary_tolerance_us: self.number("primary_tolerance_us"),
            secondary_tolerance_us: self.number("secondary_tolerance_us"),
            max_latency_us: self.number("max_latency_us"),
            enabled: true,
            quirks: ApstQuirks {
                no_deepest: self.switch("no_deepest"),
                no_apst: false,
            },
        }
    }

    /// The value of a setting as text: the given one or the default. Values are checked when a name
    /// is parsed and defaults by a test, so the readers below need no errors.
    fn word(&self, key: &str) -> &str {
        let given = self.given().find(|(name, _)| *name == key);
        let default = || {
            let info = self.info.keys.iter().find(|info| info.name == key);
            match info.map(|info| info.default) {
                Some(Default::Value(value)) => value,
                _ => "",
            }
        };
        given.map_or_else(default, |(_, value)| value)
    }

    fn switch(&self, key: &str) -> bool {
        self.word(key) == "on"
    }

    fn number(&self, key: &str) -> u64 {
        let text = self.word(key);
        let info = self.info.keys.iter().find(|info| info.name == key);
        if let Some(Values::NamedUpTo(words, _)) = info.map(|info| info.values)
            && let Some((_, number)) = words.iter().find(|(word, _)| *word == text)
        {
            return *number;
        }
        registry::whole_number(text).unwrap_or(0)
    }

    fn given_number(&self, key: &str) -> Option<u64> {
        self.given()
            .find(|(name, _)| *name == key)
            .and_then(|(_, value)| registry::whole_number(value))
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        if let Some(version) = self.version {
            write!(f, "@{version}")?;
        }
        for (i, (key, value)) in self.given().enumerate() {
            let separator = if i == 0 { '[' } else { ',' };
            write!(f, "{separator}{key}={value}")?;
        }
        if self.given.is_empty() {
            Ok(())
        } else {
            f.write_str("]")
        }
    }
}

impl Serialize for PolicySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let syntax = |problem| SpecError::Syntax {
            text: text.to_owned(),
            problem,
        };

        let (head, settings) = match text.split_once('[') {
            Some((head, rest)) => {
                let inside = rest
                    .strip_suffix(']')
                    .ok_or(syntax("the `[` is not closed"))?;
                (head, Some(inside))
            }
            None => (text, None),
        };
        let (name, version) = match head.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (head, None),
        };
        if name.is_empty() {
            return Err(syntax("the name is missing"));
        }

        let info = find(name)?;
        let version = choose_version(info, version)?;
        let mut given: Vec<(&'static KeyInfo, String)> = Vec::new();
        if let Some(settings) = settings {
            for setting in settings.split(',') {
                let (key, value) = setting
                    .split_once('=')
                    .ok_or(syntax("a setting is written key=value"))?;
                let (key, value) = check_setting(info, key.trim(), value.trim())?;
                if given.iter().any(|(known, _)| known.name == key.name) {
                    return Err(SpecError::DuplicateKey {
                        name: info.name,
                        key: key.name,
                    });
                }
                given.push((key, value));
            }
        }
        Ok(Self {
            info,
            version,
            given,
        })
    }
}

fn find(name: &str) -> Result<&'static PolicyInfo, SpecError> {
    POLICIES
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| SpecError::UnknownName {
            name: name.to_owned(),
            nearest: closest(name, POLICIES.iter().map(|info| info.name))
                .map_or("", |(_, near)| near),
            known: names(|_| true),
        })
}

fn choose_version(
    info: &'static PolicyInfo,
    wanted: Option<&str>,
) -> Result<Option<&'static str>, SpecError> {
    let Some(wanted) = wanted else {
        return Ok(info.versions.last().copied());
    };
    match info.versions.iter().find(|version| **version == wanted) {
        Some(version) => Ok(Some(version)),
        None => Err(SpecError::UnknownVersion {
            name: info.name,
            version: wanted.to_owned(),
            known: if info.versions.is_empty() {
                "it has no versions".to_owned()
            } else {
                format!("known: {}", info.versions.join(", "))
            },
        }),
    }
}

fn check_setting(
    info: &'static PolicyInfo,
    key: &str,
    value: &str,
) -> Result<(&'static KeyInfo, String), SpecError> {
    let Some(known) = info.keys.iter().find(|known| known.name == key) else {
        let known: Vec<_> = info.keys.iter().map(|known| known.name).collect();
        return Err(SpecError::UnknownKey {
            name: info.name,
            key: key.to_owned(),
            known: if known.is_empty() {
                "it has no settings".to_owned()
            } else {
                format!("known: {}", known.join(", "))
            },
        });
    };
    if known.values.allow(value) {
        Ok((known, value.to_owned()))
    } else {
        Err(SpecError::BadValue {
            name: info.name,
            key: known.name,
            value: value.to_owned(),
            allowed: known.values.describe(),
        })
    }
}

/// Splits a list of policy names at its commas, but not at those within brackets:
/// `menu@6.1,schedutil[iowait_boost=off,rate_limit_us=500]` is two names.
pub fn split_list(text: &str) -> Result<Vec<&str>, SpecError> {
    let syntax = |problem| SpecError::Syntax {
        text: text.to_owned(),
        problem,
    };
    let mut names = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return Err(syntax("brackets do not nest")),
            '[' => inside = true,
            ']' if !inside => return Err(syntax("there is a `]` without a `[`")),
            ']' => inside = false,
            ',' if !inside => {
                names.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(syntax("the `[` is not closed"));
    }
    names.push(text[start..].trim());
    if names.iter().any(|name| name.is_empty()) {
        return Err(syntax("a name in the list is missing"));
    }
    Ok(names)
}

/// Parses a list of policy names, separated by commas.
pub fn parse_list(text: &str) -> Result<Vec<PolicySpec>, SpecError> {
    split_list(text)?.into_iter().map(str::parse).collect()
}

fn names(which: impl Fn(&PolicyInfo) -> bool) -> String {
    let names: Vec<_> = POLICIES
        .iter()
        .filter(|info| which(info))
        .map(|info| info.name)
        .collect();
    names.join(", ")
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u', 'A']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

#[cfg(test)]
mod tests;
