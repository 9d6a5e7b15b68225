//! Profiles by name.

use wakepath_units::spelling::suggestion_with_known_names;

use super::declaration::{Profile, Tool};
use super::published::{PROFILES, TOOLS};
use crate::spec::SpecError;

/// Names of the tools whose profiles policy sets can name.
pub(crate) fn profile_tools() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

/// Splits a part of a policy set into its tool and the rest; `None` if no tool has the name.
fn split_off_tool(text: &str) -> Option<(&'static Tool, &str)> {
    let end = text.find(['[', '@']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let tool = TOOLS.iter().find(|tool| tool.name == name.trim());
    tool.map(|tool| (*tool, rest.trim()))
}

/// Whether a part of a policy set names a tool's profile, or tries to.
pub(crate) fn is_profile(text: &str) -> bool {
    split_off_tool(text).is_some()
}

/// Finds the profile that `TOOL[NAME]` names; `None` if the text does not begin with a tool.
///
/// # Errors
///
/// The tool has no such profile here, or the text is malformed.
pub(crate) fn find_profile(text: &str) -> Option<Result<&'static Profile, SpecError>> {
    let (tool, rest) = split_off_tool(text.trim())?;
    let name = rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .map(str::trim)
        .unwrap_or_default();
    let profiles: Vec<&Profile> = PROFILES
        .iter()
        .filter(|profile| profile.tool == tool)
        .collect();
    let found = profiles
        .iter()
        .find(|profile| profile.name_in_tool() == name);
    Some(found.copied().ok_or_else(|| {
        let known: Vec<&str> = profiles
            .iter()
            .map(|profile| profile.name_in_tool())
            .collect();
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
                suggestion_with_known_names(name, &known)
            )
        };
        SpecError::Profile {
            text: text.trim().to_owned(),
            problem,
        }
    }))
}
