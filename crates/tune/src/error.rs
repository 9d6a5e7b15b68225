//! Why there is no answer.

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A condition that cannot be read, or names what there is not.
    #[error("{condition}: {problem}")]
    Condition {
        /// The condition, as written.
        condition: String,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// A load with impossible hours or a name given twice.
    #[error("{load}: {problem}")]
    Load {
        /// Name of the load.
        load: String,
        /// What is wrong.
        problem: String,
    },
    /// A name that is no part of the space.
    #[error("{0}")]
    Space(String),
    /// The objective has no value in a load.
    #[error("{metric} has no value for {load}: {hint}")]
    NoMetric {
        /// Name of the metric.
        metric: String,
        /// Name of the load.
        load: String,
        /// What the load has.
        hint: String,
    },
    /// The policies in force cannot be simulated.
    #[error("what is in force cannot be simulated: {0}")]
    InForce(String),
    /// The budget is too small for its finalists.
    #[error(
        "a budget of {budget} simulated requests is too small: the finalists alone take {needed}; give at least {least}"
    )]
    Budget {
        /// Given budget.
        budget: u64,
        /// What the finalists take.
        needed: u64,
        /// The least budget.
        least: u64,
    },
    /// Called off by the user.
    #[error("interrupted: nothing was decided")]
    Interrupted,
}
