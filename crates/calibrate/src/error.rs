//! Why a machine could not be calibrated.

use std::path::PathBuf;

use wakepath_hardware::machine::MachineError;
use wakepath_measure::MeasureError;
use wakepath_study::file::StudyError;

/// Why a machine could not be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// An experiment.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// The machine cannot be described.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A job cannot be run or simulated.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The folder for test files.
    #[error("{}: {action}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A folder whose name cannot stand in a job file.
    #[error(
        "{}: expected a path in UTF-8 without colons, semicolons, '#', '$', control characters and blanks at its ends, \
         which fio job files cannot name; name another --folder",
        .0.display()
    )]
    FolderName(PathBuf),
}
