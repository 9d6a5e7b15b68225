//! Errors in policy names.

/// Why a text is not the name of a policy, or not a policy set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A policy's text does not have the form `NAME@VERSION[key=value,...]`.
    #[error(
        "`{text}`: {problem}; a policy is written NAME@VERSION[key=value,...], a set of them A + B"
    )]
    Syntax {
        /// The whole text.
        text: String,
        /// The fault.
        problem: &'static str,
    },
    /// No policy has this name.
    #[error("no policy is called `{name}`{meant} Known: {known}")]
    UnknownName {
        /// The name.
        name: String,
        /// Suggestion of the policy that was probably meant, in words; a full stop without any.
        meant: String,
        /// All existing names.
        known: String,
    },
    /// A tool has published no such profile, or a profile stands where none can.
    #[error("`{text}`: {problem}")]
    Profile {
        /// The given text.
        text: String,
        /// What is wrong with the profile, and the alternatives.
        problem: String,
    },
    /// A user's own governor is written in another form.
    #[error("`{text}`: {problem}")]
    Program {
        /// The given text.
        text: String,
        /// The fault.
        problem: String,
    },
    /// The policy decides something else than what is asked for.
    #[error("`{name}` is not {wanted} policy but {actual} policy; known: {known}")]
    WrongKind {
        /// The policy.
        name: String,
        /// Kind of decision that was asked for, with article.
        wanted: String,
        /// Kind of decision that the policy makes, with article.
        actual: String,
        /// Suitable policies.
        known: String,
    },
    /// The policy has no version of this number.
    #[error("`{name}@{version}`: {problem}")]
    UnknownVersion {
        /// The policy.
        name: &'static str,
        /// The version.
        version: String,
        /// What is wrong with the version, and the existing versions.
        problem: String,
    },
    /// The policy has no key of this name.
    #[error("`{name}` has no setting `{key}`; {known}")]
    UnknownKey {
        /// The policy.
        name: &'static str,
        /// The key.
        key: String,
        /// Existing keys, and the key that was probably meant.
        known: String,
    },
    /// A policy's key is given twice.
    #[error("`{name}`: the setting `{key}` is given twice")]
    DuplicateKey {
        /// The policy.
        name: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A policy lacks a key that has to be given.
    #[error("`{name}`: the setting `{key}` is missing, as in {name}[{key}={example}]")]
    MissingKey {
        /// The policy.
        name: &'static str,
        /// The key.
        key: &'static str,
        /// An example value.
        example: &'static str,
    },
    /// The policy's key does not accept the value.
    #[error("`{name}[{key}={value}]`: expected {allowed}")]
    BadValue {
        /// The policy.
        name: &'static str,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// Allowed values.
        allowed: String,
    },
    /// Keys of a policy contradict each other, or are too few.
    #[error("`{name}`: {problem}")]
    Keys {
        /// The policy.
        name: &'static str,
        /// The fault.
        problem: String,
    },
    /// Two policies of a set make the same kind of decision.
    #[error("`{first}` and `{second}` are both {kind} policies; a set has at most one")]
    SameKind {
        /// First policy.
        first: String,
        /// Second policy.
        second: String,
        /// Kind of decision that both policies make.
        kind: &'static str,
    },
    /// Two policies of a set change the same setting.
    #[error("`{first}` and `{second}` both set `{key}`; leave one of them out")]
    SetTwice {
        /// First policy.
        first: String,
        /// Second policy.
        second: String,
        /// Setting that both policies change.
        key: &'static str,
    },
}

impl SpecError {
    /// Makes an error about a text that is no policy and no set.
    pub(crate) fn syntax_error(text: &str, problem: &'static str) -> Self {
        Self::Syntax {
            text: text.to_owned(),
            problem,
        }
    }
}
