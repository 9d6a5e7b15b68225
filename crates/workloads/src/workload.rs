//! A workload in any of the formats that are read.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::fio::{self, FioError, FioJobFile};

/// What the machine is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Workload {
    /// I/O: a fio job file.
    Fio(FioJobFile),
}

/// Why a workload was refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[expect(missing_docs, reason = "each variant is the error it wraps")]
pub enum WorkloadError {
    Fio(#[from] FioError),
}

/// Something in a workload file that was accepted but that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadWarning {
    /// Line that the warning is about, counted from 1.
    pub line: usize,
    /// What happens instead of what the line might seem to ask for.
    pub message: String,
}

impl fmt::Display for WorkloadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

impl Workload {
    /// Reads the workload at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is no workload that is understood: see [`fio::parse`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        Ok(Self::Fio(fio::load(path)?))
    }

    /// The names of its jobs, in the order of the file.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Fio(file) => file.jobs.iter().map(|j| j.name.as_str()).collect(),
        }
    }

    /// What was accepted without having the effect that it might seem to ask for.
    pub fn warnings(&self) -> Vec<WorkloadWarning> {
        match self {
            Self::Fio(file) => file
                .warnings
                .iter()
                .map(|w| WorkloadWarning {
                    line: w.line,
                    message: w.message.clone(),
                })
                .collect(),
        }
    }
}

impl From<FioJobFile> for Workload {
    fn from(file: FioJobFile) -> Self {
        Self::Fio(file)
    }
}
