//! Why a search gives no answer.

/// Why a search gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A condition is unreadable, or has an unknown name.
    #[error("{condition}: {problem}")]
    Condition {
        /// The condition, as the user wrote it.
        condition: String,
        /// What is wrong with the condition, and the right form.
        problem: String,
    },
    /// A load has impossible hours, or a name that was given twice.
    #[error("{load}: {problem}")]
    Load {
        /// The load's name.
        load: String,
        /// The fault.
        problem: String,
    },
    /// A mechanism's name is unknown.
    #[error("{0}")]
    Space(String),
    /// The objective has no value in one of the loads.
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
        /// Number of requests that the finalists need.
        needed: u64,
        /// The least budget.
        least: u64,
    },
    /// The user called the search off.
    #[error("interrupted: nothing was decided")]
    Interrupted,
}
