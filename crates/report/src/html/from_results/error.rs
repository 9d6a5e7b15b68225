//! Why there is no report.

use wakepath_compare::results::CompareError;
use wakepath_results::ResultsError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum FromResultsError {
    /// No results were named.
    #[error("no results to report on")]
    Nothing,
    /// Results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Results cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// `--baseline` names no policy.
    #[error("no policy `{name}`; there are: {}", known.join(", "))]
    Baseline {
        /// The requested name.
        name: String,
        /// The policies in the results.
        known: Vec<String>,
    },
}
