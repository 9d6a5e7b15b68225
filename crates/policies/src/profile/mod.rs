//! Policy sets that other tools publish under a name: `tuned[latency-performance]`, `power-profiles[balanced]`.
//!
//! A profile is a part of a [`PolicySet`]. What the set says itself holds before what the profile says. What a profile
//! becomes depends on the machine: the tools skip what a machine does not have, and so does [`PolicySet::expand_profile`].
//!
//! [`PolicySet`]: crate::PolicySet
//! [`PolicySet::expand_profile`]: crate::PolicySet::expand_profile

mod declaration;
mod expand;
mod find;
mod published;

pub use self::declaration::{Profile, Tool};
pub use self::expand::Expanded;
pub(crate) use self::find::{find_profile, is_profile, profile_tools};
pub use self::published::PROFILES;

#[cfg(test)]
mod tests;
