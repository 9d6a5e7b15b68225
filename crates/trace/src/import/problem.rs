//! Why a trace cannot be imported.

use std::path::{Path, PathBuf};

use wakepath_units::cpus::MAX_CPUS;

use crate::recording::RecordingError;

/// Why a trace could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The trace is damaged, or is no file that can be imported.
    #[error("{}: {problem}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with the trace, where, and what to do.
        problem: String,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// A problem inside a file, before the file's name is known.
#[derive(Debug)]
pub(crate) enum Problem {
    Trace(String),
    Recording(RecordingError),
}

impl From<RecordingError> for Problem {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

impl From<String> for Problem {
    fn from(problem: String) -> Self {
        Self::Trace(problem)
    }
}

impl Problem {
    /// The error of an import, with the name of the trace's file.
    pub(super) fn with_path(self, path: &Path) -> ImportError {
        match self {
            Self::Trace(problem) => ImportError::Trace {
                path: path.to_owned(),
                problem,
            },
            Self::Recording(error) => error.into(),
        }
    }
}

/// Refuses CPU numbers beyond the kernel's limit, which no reader of recordings accepts.
pub(super) fn check_cpu_number(cpu: u32) -> Result<(), Problem> {
    if cpu < MAX_CPUS {
        return Ok(());
    }
    Err(format!(
        "an event on CPU {cpu}, and no kernel has more than {MAX_CPUS} CPUs; the trace is damaged"
    )
    .into())
}
