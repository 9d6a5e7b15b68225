//! How a mechanism is declared, and how its policy is built from keys.

use std::fmt;

use wakepath_units::KernelVersion;

use super::key::{AnyKey, Fallback, Key};
use super::policy::{Kind, Policy};
use crate::idle::IdlePolicy;
use crate::idle::program::{Program, ProgramForm};
use crate::spec::SpecError;

/// A mechanism.
pub struct Mechanism {
    /// Name of the mechanism in policy sets, without version and keys.
    pub name: &'static str,
    /// What the mechanism decides. A set has at most one mechanism per kind.
    pub kind: Kind,
    /// Whether kernel versions differ in the mechanism, so that its name takes a version. A bare
    /// name means [`crate::spec::version::BARE`].
    pub versioned: bool,
    /// The mechanism's rule, on one line.
    pub summary: &'static str,
    /// Kernel source, or another origin of the mechanism's rule.
    pub source: &'static str,
    /// Where the mechanism can act: simulator, recording or machine.
    pub on: &'static [Place],
    /// Keys.
    pub keys: &'static [&'static dyn AnyKey],
    /// Keys of this mechanism that change the same setting as another kind: both in a set
    /// contradict each other.
    pub overlaps: &'static [(&'static str, Kind)],
    /// Builds the policy.
    pub(crate) build: fn(&GivenPolicy<'_>) -> Result<Policy, SpecError>,
}

/// Where a mechanism can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The mechanism acts on a simulated machine.
    Sim,
    /// On a recording.
    Replay,
    /// The mechanism acts on a real machine.
    Machine,
}

impl Place {
    /// Wakepath command that uses mechanisms at this place: `sim`, `replay` or `apply`.
    pub const fn command_name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Replay => "replay",
            Self::Machine => "apply",
        }
    }
}

/// Builds the policy of a user's own governor, which names a file.
pub(super) fn build_program_policy(given: &GivenPolicy<'_>) -> Result<Policy, SpecError> {
    let program = given.program.ok_or_else(|| {
        let example = ProgramForm::by_policy_name(given.mechanism.name)
            .map_or("", ProgramForm::example_policy);
        given.keys_error(format!("a file has to follow, as in {example}"))
    })?;
    Ok(Policy::Idle(IdlePolicy::Program(program.clone())))
}

/// Places of mechanisms that act on simulated machines, recordings and real machines.
pub(super) const EVERYWHERE: &[Place] = &[Place::Sim, Place::Replay, Place::Machine];
/// Places of mechanisms that need a machine which reacts: not recordings.
pub(super) const SIM_AND_MACHINE: &[Place] = &[Place::Sim, Place::Machine];

/// A mechanism's key with the value that the user wrote.
pub(crate) type GivenKey = (&'static dyn AnyKey, String);

/// Version and keys of a policy as the user wrote them.
pub(crate) struct GivenPolicy<'a> {
    pub(crate) mechanism: &'static Mechanism,
    pub(crate) version: Option<KernelVersion>,
    pub(crate) keys: &'a [GivenKey],
    /// The user's own governor, if the policy is one.
    pub(crate) program: Option<&'a Program>,
}

impl GivenPolicy<'_> {
    /// Kernel version that the user wrote; without one, the version of a bare name.
    pub(crate) fn version_or_bare(&self) -> KernelVersion {
        self.version.unwrap_or(crate::spec::version::BARE)
    }

    /// Value that the user wrote for a key; `None` if the key is not given.
    pub(crate) fn given_value<T: Clone + Sync>(
        &self,
        key: &Key<T>,
    ) -> Result<Option<T>, SpecError> {
        let text = self
            .keys
            .iter()
            .find(|(given, _)| given.key_info().name == key.info.name);
        text.map(|(_, text)| self.parse_value(key, text))
            .transpose()
    }

    /// Value that the user wrote for a key, or the key's default.
    pub(crate) fn value_or_default<T: Clone + Sync>(&self, key: &Key<T>) -> Result<T, SpecError> {
        if let Some(value) = self.given_value(key)? {
            return Ok(value);
        }
        match key.info.fallback {
            Fallback::Value(text) => self.parse_value(key, text),
            Fallback::Derived(_) | Fallback::Required => Err(SpecError::MissingKey {
                name: self.mechanism.name,
                key: key.info.name,
                example: key.info.example,
            }),
        }
    }

    /// Makes an error about keys that contradict each other, or set nothing.
    pub(crate) fn keys_error(&self, problem: impl Into<String>) -> SpecError {
        SpecError::Keys {
            name: self.mechanism.name,
            problem: problem.into(),
        }
    }

    fn parse_value<T: Clone + Sync>(&self, key: &Key<T>, text: &str) -> Result<T, SpecError> {
        key.parse_value(text).ok_or_else(|| SpecError::BadValue {
            name: self.mechanism.name,
            key: key.info.name,
            value: text.to_owned(),
            allowed: key.describe_accepted_values(),
        })
    }
}

impl Mechanism {
    /// Finds a key of the mechanism by name.
    pub fn find_key(&self, name: &str) -> Option<&'static dyn AnyKey> {
        self.keys
            .iter()
            .copied()
            .find(|k| k.key_info().name == name)
    }

    /// Name of the mechanism with a placeholder for required text: `menu`, `c:FILE`.
    pub fn name_with_placeholder(&self) -> &'static str {
        ProgramForm::by_policy_name(self.name).map_or(self.name, ProgramForm::policy_label)
    }

    /// Example of the mechanism in a policy set, with every key that has to be given.
    pub fn example_policy(&self) -> String {
        if let Some(form) = ProgramForm::by_policy_name(self.name) {
            return form.example_policy().to_owned();
        }
        let required: Vec<String> = self
            .keys
            .iter()
            .map(|key| key.key_info())
            .filter(|key| key.fallback == Fallback::Required)
            .map(|key| format!("{}={}", key.name, key.example))
            .collect();
        let first = self.keys.first().map(|key| key.key_info());
        match (&required[..], first) {
            ([], Some(key)) => format!("{}[{}={}]", self.name, key.name, key.example),
            ([], None) => self.name.to_owned(),
            (keys, _) => format!("{}[{}]", self.name, keys.join(",")),
        }
    }
}

impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Mechanism {}

impl fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
