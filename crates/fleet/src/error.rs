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
        "{}: no capture in it; `wakepath machine capture -o FOLDER/NAME` on each machine makes one",
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
    /// The folder has captures, and none of them was asked for.
    #[error(
        "{}: no name among those of {all} captures matches what is asked for (--only); a name is the path below the folder, such \
         as {example}, and `*` stands for `/`, too",
        path.display()
    )]
    NoneIncluded {
        /// The folder.
        path: PathBuf,
        /// Number of captures in the folder.
        all: usize,
        /// Name of a capture in the folder.
        example: String,
    },
    /// No capture of the folder can be used.
    #[error("{}: no capture can be used", path.display())]
    NothingUsable {
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
    /// The page cannot be made.
    #[error(transparent)]
    Page(#[from] wakepath_report::html::RenderError),
    /// The list of machines cannot be made.
    #[error(transparent)]
    List(#[from] csv::Error),
    /// A load cannot be read.
    #[error(transparent)]
    Load(#[from] wakepath_workloads::WorkloadError),
    /// A condition cannot be read.
    #[error(transparent)]
    Condition(#[from] wakepath_results::ConditionError),
    /// The text of a part, or of an answer to a part, is not what this version writes.
    #[error("{what}: {problem}")]
    Part {
        /// The text's subject: a part or an answer.
        what: &'static str,
        /// The fault.
        problem: String,
    },
    /// The user called the survey off.
    #[error("the survey was called off, and is not complete")]
    Interrupted,
}
