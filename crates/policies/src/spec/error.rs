//! What can be wrong with the name of a policy.

use crate::mechanism::{Kind, MECHANISMS};
use crate::profile;

/// Why a text is not the name of a policy, or not a policy set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It does not have the form `NAME@VERSION[key=value,...]`.
    #[error(
        "`{text}`: {problem}; a policy is written NAME@VERSION[key=value,...], a set of them A + B"
    )]
    Syntax {
        /// The whole text.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No policy has this name.
    #[error("no policy is called `{name}`{meant} Known: {known}")]
    UnknownName {
        /// The name.
        name: String,
        /// The name that was probably meant, in words; a full stop if there is none like it.
        meant: String,
        /// All names there are.
        known: String,
    },
    /// No tool has published such a profile, or a profile stands where it cannot.
    #[error("`{text}`: {problem}")]
    Profile {
        /// What was given.
        text: String,
        /// What is wrong with it, and what there is.
        problem: String,
    },
    /// A governor of one's own is not written so.
    #[error("`{text}`: {problem}")]
    Program {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: String,
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
    #[error("`{name}@{version}`: {problem}")]
    UnknownVersion {
        /// The policy.
        name: &'static str,
        /// The version.
        version: String,
        /// What is wrong with it, and which there are.
        problem: String,
    },
    /// The policy has no such key.
    #[error("`{name}` has no setting `{key}`; {known}")]
    UnknownKey {
        /// The policy.
        name: &'static str,
        /// The key.
        key: String,
        /// The keys there are, and the one that was probably meant.
        known: String,
    },
    /// A key is given twice.
    #[error("`{name}`: the setting `{key}` is given twice")]
    DuplicateKey {
        /// The policy.
        name: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A key that has to be given is not.
    #[error("`{name}`: the setting `{key}` is missing, as in {name}[{key}={example}]")]
    MissingKey {
        /// The policy.
        name: &'static str,
        /// The key.
        key: &'static str,
        /// A value that it may have.
        example: &'static str,
    },
    /// A key cannot have this value.
    #[error("`{name}[{key}={value}]`: expected {allowed}")]
    BadValue {
        /// The policy.
        name: &'static str,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// Keys that do not go together, or too few.
    #[error("`{name}`: {problem}")]
    Keys {
        /// The policy.
        name: &'static str,
        /// What is wrong with them.
        problem: String,
    },
    /// Two policies of a set decide the same.
    #[error("`{first}` and `{second}` are both {kind} policies; a set has at most one")]
    SameKind {
        /// The first of them.
        first: String,
        /// The second of them.
        second: String,
        /// What both decide.
        kind: &'static str,
    },
    /// Two policies of a set set the same.
    #[error("`{first}` and `{second}` both set `{key}`; leave one of them out")]
    SetTwice {
        /// The first of them.
        first: String,
        /// The second of them.
        second: String,
        /// What both set.
        key: &'static str,
    },
}

/// `an idle`, `a frequency`.
pub(super) fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'H']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

/// The names of the mechanisms of a kind, or of all and of the tools with profiles.
pub(super) fn names(kind: Option<Kind>) -> String {
    let mechanisms = MECHANISMS
        .iter()
        .filter(|mechanism| kind.is_none_or(|kind| mechanism.kind == kind))
        .map(|mechanism| mechanism.label());
    let profiles = profile::tools().filter(|_| kind.is_none());
    mechanisms.chain(profiles).collect::<Vec<_>>().join(", ")
}
