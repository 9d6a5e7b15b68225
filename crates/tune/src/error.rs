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
        "a budget of {budget} simulated requests is too small: the finalists alone take {}{needed}, and may take {:.0} % of a budget; \
         give at least {least}",
        if *is_estimate { "about " } else { "" },
        100.0 * *needed as f64 / (*least).max(1) as f64
    )]
    Budget {
        /// Given budget.
        budget: u64,
        /// Number of requests that the finalists need.
        needed: u64,
        /// The least budget.
        least: u64,
        /// Whether both numbers are estimates from shortened runs.
        is_estimate: bool,
    },
    /// The budget is too small for the replays that an answer takes.
    #[error(
        "a budget of {budget} replayed {unit} is too small: an answer takes {replays} replays of the recordings, each of {each} \
         {unit}; give at least {}", each.saturating_mul(*replays)
    )]
    ReplayBudget {
        /// Given budget.
        budget: u64,
        /// What is counted, such as requests.
        unit: &'static str,
        /// Fewest replays for an answer.
        replays: u64,
        /// Number of requests per replay.
        each: u64,
    },
    /// Runs have too few requests for a percentile.
    #[error(
        "{metric} of {load}: a run has {of_run} requests, and {runs} runs have too few for a percentile that takes {needed}; it is \
         not judged: simulate {times_as_long} times as long (--seconds, or the job's runtime)"
    )]
    FewRequests {
        /// The percentile's name.
        metric: String,
        /// The load's name.
        load: String,
        /// Mean request count per run.
        of_run: u64,
        /// Most runs in a decision.
        runs: u32,
        /// Request count needed by the percentile.
        needed: u64,
        /// Factor for the runs' length.
        times_as_long: u64,
    },
    /// A recording is too short for comparing power state tables.
    #[error(
        "{load}: the recording is too short for an answer: in {seconds:.1} s tables wake the drive {wake_ups} times at \
         most, and wait for up to {longest} s; record {least} s or more, with {fewest} pauses in which the drive can sleep"
    )]
    ShortRecording {
        /// The load's name.
        load: String,
        /// The recording's length.
        seconds: f64,
        /// Most wake-ups under any table.
        wake_ups: u64,
        /// Longest timeout in seconds.
        longest: u64,
        /// Least length in seconds for a recording with few wake-ups.
        least: u64,
        /// Fewest wake-ups for a comparison.
        fewest: u64,
    },
    /// A recording cannot be replayed.
    #[error("{0}")]
    Recording(String),
    /// The user called the search off.
    #[error("the search was called off, and decided nothing")]
    Interrupted,
}
