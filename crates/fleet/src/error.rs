//! Why a fleet cannot be surveyed.

use std::path::PathBuf;

/// Why a fleet cannot be surveyed.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A folder cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder has no capture.
    #[error(
        "{}: no capture in it; `wakepath machine capture FOLDER/NAME` on each machine makes one",
        path.display()
    )]
    NoCaptures {
        /// The folder.
        path: PathBuf,
    },
    /// The folder itself is a capture.
    #[error("{}: is a capture itself; give the folder that all captures are in", path.display())]
    SingleCapture {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has more files and folders than any fleet.
    #[error("{}: more than {most} files and folders", path.display())]
    TooLarge {
        /// The folder.
        path: PathBuf,
        /// The limit.
        most: usize,
    },
    /// The loads fit no search.
    #[error(transparent)]
    Search(#[from] wakepath_tune::TuneError),
    /// The user called the survey off.
    #[error("interrupted: the survey is not complete")]
    Interrupted,
}
