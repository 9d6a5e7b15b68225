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
    /// Name without version and keys.
    pub name: &'static str,
    /// Kind of decision. A set has at most one mechanism per kind.
    pub kind: Kind,
    /// Kernel versions differ, and the name takes a version. A bare name means [`crate::spec::version::BARE`].
    pub versioned: bool,
    /// The rule, on one line.
    pub summary: &'static str,
    /// Kernel source, or another origin of the rule.
    pub source: &'static str,
    /// Places where the mechanism acts.
    pub on: &'static [Place],
    /// Keys.
    pub keys: &'static [&'static dyn AnyKey],
    /// Keys that set the same as another kind of mechanism: both in a set contradict each other.
    pub overlaps: &'static [(&'static str, Kind)],
    /// Builds the policy.
    pub(crate) build: fn(&GivenPolicy<'_>) -> Result<Policy, SpecError>,
}

/// Where a mechanism can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On a simulated machine.
    Sim,
    /// On a recording.
    Replay,
    /// On a real machine.
    Machine,
}

impl Place {
    /// Command with this place.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Replay => "replay",
            Self::Machine => "apply",
        }
    }
}

/// Builds a policy that names a file.
pub(super) fn build_program(given: &GivenPolicy<'_>) -> Result<Policy, SpecError> {
    let program = given.program.ok_or_else(|| {
        let example = ProgramForm::named(given.mechanism.name).map_or("", ProgramForm::example);
        given.error(format!("a file has to follow, as in {example}"))
    })?;
    Ok(Policy::Idle(IdlePolicy::Program(program.clone())))
}

/// Places of mechanisms that act everywhere.
pub(super) const EVERYWHERE: &[Place] = &[Place::Sim, Place::Replay, Place::Machine];
/// Places of mechanisms that need a reacting machine.
pub(super) const SIM_AND_MACHINE: &[Place] = &[Place::Sim, Place::Machine];

/// A key with its value, as given.
pub(crate) type GivenKey = (&'static dyn AnyKey, String);

/// A mechanism's version and keys, as given.
pub(crate) struct GivenPolicy<'a> {
    pub(crate) mechanism: &'static Mechanism,
    pub(crate) version: Option<KernelVersion>,
    pub(crate) keys: &'a [GivenKey],
    /// The user's own governor, if named.
    pub(crate) program: Option<&'a Program>,
}

impl GivenPolicy<'_> {
    /// The version; without one, the version of a bare name.
    pub(crate) fn version(&self) -> KernelVersion {
        self.version.unwrap_or(crate::spec::version::BARE)
    }

    /// The value that was given, if any.
    pub(crate) fn given<T: Clone + Sync>(&self, key: &Key<T>) -> Result<Option<T>, SpecError> {
        let text = self
            .keys
            .iter()
            .find(|(given, _)| given.info().name == key.info.name);
        text.map(|(_, text)| self.value(key, text)).transpose()
    }

    /// The value that was given, or the default.
    pub(crate) fn get<T: Clone + Sync>(&self, key: &Key<T>) -> Result<T, SpecError> {
        if let Some(value) = self.given(key)? {
            return Ok(value);
        }
        match key.info.fallback {
            Fallback::Value(text) => self.value(key, text),
            Fallback::Derived(_) | Fallback::Required => Err(SpecError::MissingKey {
                name: self.mechanism.name,
                key: key.info.name,
                example: key.info.example,
            }),
        }
    }

    /// The keys contradict each other, or say nothing.
    pub(crate) fn error(&self, problem: impl Into<String>) -> SpecError {
        SpecError::Keys {
            name: self.mechanism.name,
            problem: problem.into(),
        }
    }

    fn value<T: Clone + Sync>(&self, key: &Key<T>, text: &str) -> Result<T, SpecError> {
        key.parse(text).ok_or_else(|| SpecError::BadValue {
            name: self.mechanism.name,
            key: key.info.name,
            value: text.to_owned(),
            allowed: key.describe(),
        })
    }
}

impl Mechanism {
    /// Finds a key by name.
    pub fn key(&self, name: &str) -> Option<&'static dyn AnyKey> {
        self.keys.iter().copied().find(|k| k.info().name == name)
    }

    /// The name with a placeholder for required text: `menu`, `c:FILE`.
    pub fn label(&self) -> &'static str {
        ProgramForm::named(self.name).map_or(self.name, ProgramForm::label)
    }

    /// An example with every key that has to be given.
    pub fn example(&self) -> String {
        if let Some(form) = ProgramForm::named(self.name) {
            return form.example().to_owned();
        }
        let required: Vec<String> = self
            .keys
            .iter()
            .map(|key| key.info())
            .filter(|key| key.fallback == Fallback::Required)
            .map(|key| format!("{}={}", key.name, key.example))
            .collect();
        let first = self.keys.first().map(|key| key.info());
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
