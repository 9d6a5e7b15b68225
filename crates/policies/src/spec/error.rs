//! Errors in policy names.

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
        /// The fault.
        problem: &'static str,
    },
    /// No policy has this name.
    #[error("no policy is called `{name}`{meant} Known: {known}")]
    UnknownName {
        /// The name.
        name: String,
        /// The probable meaning, in words; a full stop without any.
        meant: String,
        /// All existing names.
        known: String,
    },
    /// No tool has published such a profile, or a profile stands where it cannot.
    #[error("`{text}`: {problem}")]
    Profile {
        /// The given text.
        text: String,
        /// The fault, and the alternatives.
        problem: String,
    },
    /// A governor of one's own is not written so.
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
        /// Expected kind of decision, with article.
        wanted: String,
        /// Actual kind of decision, with article.
        actual: String,
        /// Suitable policies.
        known: String,
    },
    /// The policy has no such version.
    #[error("`{name}@{version}`: {problem}")]
    UnknownVersion {
        /// The policy.
        name: &'static str,
        /// The version.
        version: String,
        /// The fault, and the existing ones.
        problem: String,
    },
    /// The policy has no such key.
    #[error("`{name}` has no setting `{key}`; {known}")]
    UnknownKey {
        /// The policy.
        name: &'static str,
        /// The key.
        key: String,
        /// The existing keys, and the probable meaning.
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
        /// An example value.
        example: &'static str,
    },
    /// The value is not allowed for the key.
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
    /// Keys that do not go together, or too few.
    #[error("`{name}`: {problem}")]
    Keys {
        /// The policy.
        name: &'static str,
        /// The fault.
        problem: String,
    },
    /// Two policies of a set decide the same.
    #[error("`{first}` and `{second}` are both {kind} policies; a set has at most one")]
    SameKind {
        /// First policy.
        first: String,
        /// Second policy.
        second: String,
        /// Kind of decision by both.
        kind: &'static str,
    },
    /// Two policies of a set set the same.
    #[error("`{first}` and `{second}` both set `{key}`; leave one of them out")]
    SetTwice {
        /// First policy.
        first: String,
        /// Second policy.
        second: String,
        /// Setting changed by both.
        key: &'static str,
    },
}

impl SpecError {
    /// The text does not follow the grammar.
    pub(crate) fn syntax(text: &str, problem: &'static str) -> Self {
        Self::Syntax {
            text: text.to_owned(),
            problem,
        }
    }
}
