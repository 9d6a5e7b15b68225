//! Why there is no answer.

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// An unreadable condition, or one with an unknown name.
    #[error("{condition}: {problem}")]
    Condition {
        /// The condition, as written.
        condition: String,
        /// The fault, and the right form.
        problem: String,
    },
    /// A load with impossible hours or a name given twice.
    #[error("{load}: {problem}")]
    Load {
        /// The load's name.
        load: String,
        /// The fault.
        problem: String,
    },
    /// A name outside the space.
    #[error("{0}")]
    Space(String),
    /// The objective has no value in a load.
    #[error("{metric} has no value for {load}: {hint}")]
    NoMetric {
        /// The metric's name.
        metric: String,
        /// The load's name.
        load: String,
        /// Metrics that the load has.
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
        /// Requests needed by the finalists.
        needed: u64,
        /// The least budget.
        least: u64,
    },
    /// Called off by the user.
    #[error("interrupted: nothing was decided")]
    Interrupted,
}
