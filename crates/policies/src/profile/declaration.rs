//! Declaration of profiles that other tools publish.

use std::fmt;

/// A tool that publishes profiles, such as `TuneD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name of the tool in policy sets: `tuned`.
    pub name: &'static str,
    /// Name and version of the tool.
    pub title: &'static str,
}

/// A profile published by another tool, as policies.
#[derive(Debug)]
pub struct Profile {
    /// Tool that publishes the profile.
    pub tool: &'static Tool,
    /// Name of the profile in policy sets: `tuned[balanced]`.
    pub text: &'static str,
    /// Purpose of the profile, on one line.
    pub summary: &'static str,
    /// Publication with the profile's settings.
    pub source: &'static str,
    /// Policies that the profile sets: from each list, the first policy available on the machine.
    pub policies: &'static [&'static [&'static str]],
    /// Settings of the profile without a policy here, in the tool's notation.
    pub others: &'static [&'static str],
}

impl Profile {
    /// Name that the tool has for the profile.
    pub fn name_in_tool(&self) -> &'static str {
        let inner = self.text.split_once('[').map_or("", |(_, rest)| rest);
        inner.trim_end_matches(']')
    }

    /// Note for users on the profile's settings that no policy covers; `None` if there are none.
    pub fn uncovered_settings_note(&self) -> Option<String> {
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
