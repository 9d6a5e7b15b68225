//! What is known of another tool's profile.

use std::fmt;

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

impl Profile {
    /// The tool's name for the profile.
    pub fn name(&self) -> &'static str {
        let inner = self.text.split_once('[').map_or("", |(_, rest)| rest);
        inner.trim_end_matches(']')
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
