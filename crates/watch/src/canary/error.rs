//! Why a roll-out cannot be planned or judged.

use std::path::PathBuf;

/// Why a roll-out cannot be planned or judged.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// The metric is unknown, or has no worse direction.
    #[error(
        "{name}: not known which direction is worse{meant}. A metric of your own needs --worse up or down"
    )]
    Metric {
        /// The name.
        name: String,
        /// Known names.
        meant: String,
    },
    /// A file cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file has unexpected content.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The place in the file, what was found, and what was expected.
        message: String,
    },
    /// The machines do not fit the roll-out.
    #[error("{0}")]
    Machines(String),
    /// The history is too short for a plan.
    #[error("{0}")]
    History(String),
}
