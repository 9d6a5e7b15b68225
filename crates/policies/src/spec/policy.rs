//! A policy by name: `NAME@VERSION[key=value,...]`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use wakepath_units::spelling::similar_name;

use super::error::SpecError;
use super::version::BARE;
use crate::apst::ApstSettings;
use crate::freq::FreqPolicy;
use crate::idle::program::{Program, ProgramForm};
use crate::idle::{IdlePolicy, KernelVersion};
use crate::mechanism::key::AnyKey;
use crate::mechanism::{
    GivenKey, GivenPolicy, Kind, MECHANISMS, Mechanism, Policy, find_mechanism,
};
use crate::profile::{is_profile, profile_tools};
use crate::psd::PsdSettings;

/// A policy as users write it: mechanism, version and keys.
#[derive(Clone)]
pub struct PolicySpec {
    mechanism: &'static Mechanism,
    version: Option<KernelVersion>,
    /// Whether the user gave no version.
    bare: bool,
    keys: Vec<GivenKey>,
    policy: Policy,
}

impl PolicySpec {
    /// Mechanism that the policy uses.
    pub fn mechanism(&self) -> &'static Mechanism {
        self.mechanism
    }

    /// Kind of decision.
    pub fn kind(&self) -> Kind {
        self.policy.kind()
    }

    /// Kernel version of the policy; `None` if its mechanism is equal in all versions.
    pub fn version(&self) -> Option<KernelVersion> {
        self.version
    }

    /// Whether the text lacks a version although versions differ: the kernel at hand decides then.
    pub fn is_bare(&self) -> bool {
        self.bare && self.version.is_some()
    }

    /// Keys that the user gave, in that order, each with its value.
    pub fn given_keys(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.keys
            .iter()
            .map(|(key, value)| (key.key_info().name, &**value))
    }

    /// The policy with its keys in typed form.
    pub fn typed_policy(&self) -> &Policy {
        &self.policy
    }

    /// The user's own governor, if the policy is one.
    pub fn own_governor(&self) -> Option<&Program> {
        match &self.policy {
            Policy::Idle(IdlePolicy::Program(program)) => Some(program),
            _ => None,
        }
    }

    /// A copy with another program, if the policy is a user's own governor.
    #[must_use]
    pub fn with_own_governor(&self, program: Program) -> Self {
        let mut changed = self.clone();
        if self.own_governor().is_some() {
            changed.policy = Policy::Idle(IdlePolicy::Program(program));
        }
        changed
    }

    /// The policy as an idle policy.
    ///
    /// # Errors
    ///
    /// The policy decides something else.
    pub fn as_idle_policy(&self) -> Result<IdlePolicy, SpecError> {
        match &self.policy {
            Policy::Idle(policy) => Ok(policy.clone()),
            _ => Err(self.wrong_kind_error(Kind::Idle)),
        }
    }

    /// The policy as a frequency policy.
    ///
    /// # Errors
    ///
    /// The policy decides something else.
    pub fn as_frequency_policy(&self) -> Result<FreqPolicy, SpecError> {
        match self.policy {
            Policy::Frequency(policy) => Ok(policy),
            _ => Err(self.wrong_kind_error(Kind::Frequency)),
        }
    }

    /// The policy as PSD settings.
    ///
    /// # Errors
    ///
    /// The policy decides something else.
    pub fn as_psd_settings(&self) -> Result<PsdSettings, SpecError> {
        match &self.policy {
            Policy::Psd(policy) => Ok(policy.clone()),
            _ => Err(self.wrong_kind_error(Kind::Psd)),
        }
    }

    /// The policy as APST settings.
    ///
    /// # Errors
    ///
    /// The policy decides something else.
    pub fn as_apst_settings(&self) -> Result<ApstSettings, SpecError> {
        match self.policy {
            Policy::Apst(policy) => Ok(policy),
            _ => Err(self.wrong_kind_error(Kind::Apst)),
        }
    }

    fn wrong_kind_error(&self, wanted: Kind) -> SpecError {
        SpecError::WrongKind {
            name: self.to_string(),
            wanted: add_article(wanted.name_for_users()),
            actual: add_article(self.kind().name_for_users()),
            known: list_names(Some(wanted)),
        }
    }

    /// A copy of the policy with another value for a key.
    ///
    /// # Errors
    /// The policy has no such key, or the key cannot have the value.
    pub fn with_key(&self, key: &str, value: &str) -> Result<Self, SpecError> {
        let (key, value) = find_and_check_key(self.mechanism, key, value)?;
        let mut keys = self.keys.clone();
        match keys
            .iter_mut()
            .find(|(given, _)| given.key_info().name == key.key_info().name)
        {
            Some((_, old)) => *old = value,
            None => keys.push((key, value)),
        }
        let bare = self.bare;
        let changed = Self::new(self.mechanism, self.version, keys, self.own_governor())?;
        Ok(Self { bare, ..changed })
    }

    /// The policy in another kernel version, or in the next known series if that kernel is unknown;
    /// unchanged if versions do not differ.
    #[must_use]
    pub fn in_kernel_version(&self, kernel: KernelVersion) -> Self {
        let changed = if self.mechanism.versioned {
            std::iter::once(kernel)
                .chain(kernel.first_releases_of_later_series())
                .find_map(|version| self.in_version_if_known(Some(version)))
        } else {
            self.in_version_if_known(None)
        };
        changed.unwrap_or_else(|| self.clone())
    }

    /// The policy in another kernel version; `None` if its mechanism does not exist there.
    fn in_version_if_known(&self, version: Option<KernelVersion>) -> Option<Self> {
        Self::new(
            self.mechanism,
            version,
            self.keys.clone(),
            self.own_governor(),
        )
        .ok()
    }

    /// The policy on a machine's kernel: a bare name gets the kernel's version; a given version
    /// stays.
    #[must_use]
    pub fn with_kernel_if_bare(&self, kernel: KernelVersion) -> Self {
        if self.bare {
            self.in_kernel_version(kernel)
        } else {
            self.clone()
        }
    }

    /// A copy that counts its version as given, so that a machine with another kernel does not
    /// change it.
    pub(crate) fn with_fixed_version(&self) -> Self {
        Self {
            bare: self.bare && self.version.is_none(),
            ..self.clone()
        }
    }

    /// A copy of the policy without some keys, which fall back to defaults. Required keys stay.
    pub(crate) fn without_keys(&self, keys: &[&str]) -> Self {
        let kept: Vec<GivenKey> = self
            .keys
            .iter()
            .filter(|(key, _)| !keys.contains(&key.key_info().name))
            .cloned()
            .collect();
        let bare = self.bare;
        Self::new(self.mechanism, self.version, kept, self.own_governor())
            .map_or_else(|_| self.clone(), |changed| Self { bare, ..changed })
    }

    /// Fills the policy's gaps from `own`, the policy that a machine runs: with the same mechanism,
    /// its version and keys apply where this policy has none. Keys in `left_out`, and keys that
    /// contradict this policy, are ignored.
    pub(crate) fn fill_gaps_from(&self, own: &Self, left_out: &[&str]) -> Self {
        if own.mechanism != self.mechanism {
            return self.clone();
        }
        let version = if self.bare { own.version } else { self.version };
        let keys = self.keys.clone();
        let versioned = Self::new(self.mechanism, version, keys, self.own_governor());
        let mut filled = versioned.map_or_else(
            |_| self.clone(),
            |versioned| Self {
                bare: self.bare && own.bare,
                ..versioned
            },
        );
        for (key, value) in own.given_keys() {
            let is_given = self.given_keys().any(|(given, _)| given == key);
            if !is_given && !left_out.contains(&key) {
                filled = filled.with_key(key, value).unwrap_or(filled);
            }
        }
        filled
    }

    fn new(
        mechanism: &'static Mechanism,
        version: Option<KernelVersion>,
        keys: Vec<GivenKey>,
        program: Option<&Program>,
    ) -> Result<Self, SpecError> {
        let policy = (mechanism.build)(&GivenPolicy {
            mechanism,
            version,
            keys: &keys,
            program,
        })?;
        Ok(Self {
            mechanism,
            version,
            bare: false,
            keys,
            policy,
        })
    }
}

impl PolicySpec {
    /// Text of the policy as the user wrote it: a bare name stays without version, because machines
    /// differ in its meaning.
    pub fn text_as_written(&self) -> String {
        let mut written = self.clone();
        if self.bare {
            written.version = None;
        }
        written.to_string()
    }
}

impl PartialEq for PolicySpec {
    /// Whether both are written alike.
    fn eq(&self, other: &Self) -> bool {
        self.mechanism == other.mechanism
            && self.version == other.version
            && self.given_keys().eq(other.given_keys())
            && self.own_governor() == other.own_governor()
    }
}

impl Eq for PolicySpec {}

impl fmt::Debug for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(program) = self.own_governor() {
            return fmt::Display::fmt(program, f);
        }
        f.write_str(self.mechanism.name)?;
        if let Some(version) = self.version {
            write!(f, "@{version}")?;
        }
        for (i, (key, value)) in self.given_keys().enumerate() {
            let separator = if i == 0 { '[' } else { ',' };
            write!(f, "{separator}{key}={value}")?;
        }
        if self.keys.is_empty() {
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
        if is_profile(text) {
            return Err(SpecError::Profile {
                text: text.to_owned(),
                problem: "a profile stands for several policies; one is wanted here".to_owned(),
            });
        }
        if let Some((form, rest)) = ProgramForm::split_prefix(text) {
            let program = Program::parse(form, rest)?;
            let mechanism = find_mechanism_or_suggest(form.policy_name())?;
            return Self::new(mechanism, None, Vec::new(), Some(&program));
        }
        let parts = SpecParts::split_text(text)?;
        if parts.name.is_empty() {
            return Err(SpecError::syntax_error(text, "the name is missing"));
        }
        let mechanism = find_mechanism_or_suggest(parts.name)?;
        let version = choose_version(mechanism, parts.version)?;
        let keys = match parts.keys {
            Some(keys) => parse_keys(mechanism, keys, text)?,
            None => Vec::new(),
        };
        let named = Self::new(mechanism, version, keys, None)?;
        Ok(Self {
            bare: parts.version.is_none(),
            ..named
        })
    }
}

/// Name, version and keys in the text of a policy, `NAME@VERSION[keys]`.
struct SpecParts<'a> {
    name: &'a str,
    version: Option<&'a str>,
    keys: Option<&'a str>,
}

impl<'a> SpecParts<'a> {
    fn split_text(text: &'a str) -> Result<Self, SpecError> {
        let (head, keys) = match text.split_once('[') {
            Some((head, rest)) => {
                let keys = rest
                    .strip_suffix(']')
                    .ok_or_else(|| SpecError::syntax_error(text, "the `[` is not closed"))?;
                (head, Some(keys))
            }
            None => (text, None),
        };
        let (name, version) = match head.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (head, None),
        };
        Ok(Self {
            name,
            version,
            keys,
        })
    }
}

/// Parses the keys between a policy's brackets, each known, allowed and given once. `text` is the
/// whole policy, for messages.
fn parse_keys(
    mechanism: &'static Mechanism,
    keys: &str,
    text: &str,
) -> Result<Vec<GivenKey>, SpecError> {
    let pairs = split_keys(mechanism, keys)
        .ok_or_else(|| SpecError::syntax_error(text, "a setting is written key=value"))?;
    let mut given: Vec<GivenKey> = Vec::new();
    for (name, text) in pairs {
        let (key, value) = find_and_check_key(mechanism, name, &text)?;
        let name = key.key_info().name;
        if given.iter().any(|(known, _)| known.key_info().name == name) {
            return Err(SpecError::DuplicateKey {
                name: mechanism.name,
                key: name,
            });
        }
        given.push((key, value));
    }
    Ok(given)
}

/// Splits a policy's keys `a=1,b=2,3` at the commas; what follows a comma and has no `=` belongs to
/// the value of a list. `None` if there is something else without `=`.
fn split_keys<'a>(mechanism: &'static Mechanism, text: &'a str) -> Option<Vec<(&'a str, String)>> {
    let mut keys: Vec<(&str, String)> = Vec::new();
    for part in text.split(',') {
        if let Some((key, value)) = part.split_once('=') {
            keys.push((key.trim(), value.trim().to_owned()));
        } else {
            let (key, value) = keys.last_mut()?;
            mechanism.find_key(key).filter(|key| key.accepts_list())?;
            value.push(',');
            value.push_str(part.trim());
        }
    }
    Some(keys)
}

/// Finds the mechanism with this name.
///
/// # Errors
///
/// The error suggests the most similar name.
fn find_mechanism_or_suggest(name: &str) -> Result<&'static Mechanism, SpecError> {
    if let Some(found) = find_mechanism(name) {
        return Ok(found);
    }
    if name.starts_with("file:") {
        return Err(SpecError::Program {
            text: name.to_owned(),
            problem:
                "sim, replay and study take a daemon's configuration as a policy; on a machine \
                      `wakepath daemon --config FILE` follows it"
                    .to_owned(),
        });
    }
    let mechanisms = MECHANISMS.iter().map(|known| known.name);
    let meant = similar_name(name, mechanisms.chain(profile_tools()));
    Err(SpecError::UnknownName {
        name: name.to_owned(),
        meant: meant.map_or_else(
            || ".".to_owned(),
            |name| format!("; did you mean `{name}`?"),
        ),
        known: list_names(None),
    })
}

fn find_and_check_key(
    mechanism: &'static Mechanism,
    key: &str,
    value: &str,
) -> Result<(&'static dyn AnyKey, String), SpecError> {
    let Some(known) = mechanism.find_key(key) else {
        let known: Vec<_> = mechanism.keys.iter().map(|k| k.key_info().name).collect();
        let suggestion = similar_name(key, known.iter().copied())
            .map_or_else(String::new, |name| format!("did you mean `{name}`? "));
        return Err(SpecError::UnknownKey {
            name: mechanism.name,
            key: key.to_owned(),
            known: if known.is_empty() {
                "it has no settings".to_owned()
            } else {
                format!("{suggestion}known: {}", known.join(", "))
            },
        });
    };
    if known.accepts_value(value) {
        Ok((known, value.to_owned()))
    } else {
        Err(SpecError::BadValue {
            name: mechanism.name,
            key: known.key_info().name,
            value: value.to_owned(),
            allowed: known.describe_accepted_values(),
        })
    }
}

/// Version for a mechanism: the one after the `@`, or else the bare name's. `None` for a mechanism
/// without versions.
fn choose_version(
    mechanism: &'static Mechanism,
    wanted: Option<&str>,
) -> Result<Option<KernelVersion>, SpecError> {
    let Some(wanted) = wanted else {
        return Ok(mechanism.versioned.then_some(BARE));
    };
    let problem = if mechanism.versioned {
        match wanted.parse::<KernelVersion>() {
            Ok(version) => return Ok(Some(version)),
            Err(error) => error.problem().to_owned(),
        }
    } else {
        format!("`{}` has no versions", mechanism.name)
    };
    Err(SpecError::UnknownVersion {
        name: mechanism.name,
        version: wanted.to_owned(),
        problem,
    })
}

/// Kind of decision with its indefinite article: `an idle`, `a frequency`.
fn add_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'H']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

/// Names of the mechanisms of a kind, or of all mechanisms and tools with profiles.
fn list_names(kind: Option<Kind>) -> String {
    let mechanisms = MECHANISMS
        .iter()
        .filter(|mechanism| kind.is_none_or(|kind| mechanism.kind == kind))
        .map(|mechanism| mechanism.name_with_placeholder());
    let profiles = profile_tools().filter(|_| kind.is_none());
    mechanisms.chain(profiles).collect::<Vec<_>>().join(", ")
}
