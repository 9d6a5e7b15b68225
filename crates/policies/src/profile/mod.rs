//! Policy sets that other tools publish under a name: `tuned[latency-performance]`, `power-profiles[balanced]`.
//!
//! A profile is a part of a [`PolicySet`]. What the set says itself holds before what the profile says. What a profile
//! becomes depends on the machine: the tools skip what a machine does not have, and so does [`PolicySet::expand`].

mod published;

use std::fmt;

pub use self::published::PROFILES;
use crate::spec::{PolicySet, PolicySpec, SpecError};
use wakepath_units::spelling::suggestion;

/// A tool that publishes profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name in policy sets: `tuned`.
    pub name: &'static str,
    /// Name and version of the tool.
    pub title: &'static str,
}

/// A profile published by another tool.
#[derive(Debug)]
pub struct Profile {
    /// Publisher of the profile.
    pub tool: &'static Tool,
    /// Name in policy sets: `tuned[balanced]`.
    pub text: &'static str,
    /// Purpose, on one line.
    pub summary: &'static str,
    /// Publication with the settings.
    pub source: &'static str,
    /// Settings as policies: from each list, the first policy available on the machine.
    pub policies: &'static [&'static [&'static str]],
    /// Further settings without a policy here, in the tool's notation.
    pub others: &'static [&'static str],
}

/// A set with its profile expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The set.
    pub set: PolicySet,
    /// Notes on profile settings that are missing in the set.
    pub notes: Vec<String>,
}

impl Profile {
    /// The tool's name for the profile.
    pub fn name(&self) -> &'static str {
        let inner = self.text.split_once('[').map_or("", |(_, rest)| rest);
        inner.trim_end_matches(']')
    }

    /// Alternative policies for each setting.
    pub fn choices(&self) -> impl Iterator<Item = Vec<PolicySpec>> {
        let parsed = |names: &&[&str]| names.iter().flat_map(|name| name.parse()).collect();
        self.policies.iter().map(parsed)
    }

    /// Note on settings without a policy; `None` if complete.
    pub fn left_out(&self) -> Option<String> {
        (!self.others.is_empty()).then(|| {
            format!(
                "{self} sets more, which wakepath has no policy for: {}",
                self.others.join(", ")
            )
        })
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Profile {}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// Names of the tools.
pub(crate) fn tools() -> impl Iterator<Item = &'static str> {
    published::TOOLS.iter().map(|tool| tool.name)
}

/// Splits a part of a set into tool and profile name.
fn tool_of(text: &str) -> Option<(&'static Tool, &str)> {
    let end = text.find(['[', '@']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let tool = published::TOOLS
        .iter()
        .find(|tool| tool.name == name.trim());
    tool.map(|tool| (*tool, rest.trim()))
}

/// Whether a part of a set names a profile, or tries to.
pub(crate) fn is_profile(text: &str) -> bool {
    tool_of(text).is_some()
}

/// The profile in `TOOL[NAME]`; `None` without a tool that has profiles.
///
/// # Errors
/// The tool has no such profile here, or it is written otherwise.
pub fn parse(text: &str) -> Option<Result<&'static Profile, SpecError>> {
    let (tool, rest) = tool_of(text.trim())?;
    let of_tool = || PROFILES.iter().filter(move |profile| profile.tool == tool);
    let name = rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let name = name.map(str::trim).unwrap_or_default();
    let found = of_tool().find(|profile| profile.name() == name);
    Some(found.ok_or_else(|| {
        let known: Vec<&str> = of_tool().map(Profile::name).collect();
        let problem = if name.is_empty() {
            format!(
                "a profile of {} is written {}[{}]. Known: {}",
                tool.title,
                tool.name,
                known[0],
                known.join(", ")
            )
        } else {
            format!(
                "`{name}` is no profile of {}{}",
                tool.title,
                suggestion(name, &known)
            )
        };
        SpecError::Profile {
            text: text.trim().to_owned(),
            problem,
        }
    }))
}

impl PolicySet {
    /// Expands the profile on a machine. A callback tells whether the machine has a policy, given the set so far.
    /// Profile mechanisms also found in `own`, the machine's policies, keep the keys that the profile leaves out.
    ///
    /// # Errors
    /// Two policies contradict each other; impossible with [`PROFILES`].
    pub fn expand(
        &self,
        own: &Self,
        has: impl Fn(&PolicySpec, &Self) -> bool,
    ) -> Result<Expanded, SpecError> {
        let Some(profile) = self.profile() else {
            return Ok(Expanded {
                set: self.clone(),
                notes: Vec::new(),
            });
        };
        let mut set = self.without_profile();
        let mut notes: Vec<String> = profile.left_out().into_iter().collect();
        for choices in profile.choices() {
            if choices.iter().any(|policy| set.says(policy)) {
                continue;
            }
            if let Some(policy) = choices.iter().find(|policy| has(policy, &set)) {
                set = set.with(policy.clone())?;
            } else {
                let names: Vec<String> = choices.iter().map(ToString::to_string).collect();
                notes.push(format!(
                    "{profile}: {} does not apply to this machine and is left out",
                    names.join(" or ")
                ));
            }
        }
        Ok(Expanded {
            set: set.keeping_keys_of(own, self)?,
            notes,
        })
    }

    /// A copy where each policy missing in `said` inherits keys from the same kind of policy in `own`.
    fn keeping_keys_of(&self, own: &Self, said: &Self) -> Result<Self, SpecError> {
        let mut kept = self.clone();
        for policy in self.policies() {
            let Some(own) = own.get(policy.kind()).filter(|_| !said.says(policy)) else {
                continue;
            };
            let overlaps = policy.mechanism().overlaps.iter();
            let elsewhere = overlaps.filter(|(_, kind)| self.get(*kind).is_some());
            let elsewhere: Vec<&str> = elsewhere.map(|(key, _)| *key).collect();
            kept = kept.with(policy.filled_from(own, &elsewhere))?;
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests;
