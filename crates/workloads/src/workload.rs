//! A workload in any supported format.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use wakepath_units::Nanoseconds;

use crate::file;
use crate::fio::{self, FioError, FioJobFile};
use crate::rtapp::{self, RtAppError, RtAppFile, RtAppVersion};

/// What the machine is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Workload {
    /// I/O: a fio job file.
    Fio(FioJobFile),
    /// Work for the scheduler: an rt-app file.
    RtApp(RtAppFile),
}

/// Why a workload was refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[expect(missing_docs, reason = "each variant is the error it wraps")]
pub enum WorkloadError {
    Fio(#[from] FioError),
    RtApp(#[from] RtAppError),
}

/// Something in a workload file that was accepted but that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadWarning {
    /// Line that the warning is about, counted from 1.
    pub line: usize,
    /// The actual effect, which differs from what the line suggests.
    pub message: String,
}

impl fmt::Display for WorkloadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

impl Workload {
    /// Reads the workload at `path`: an rt-app file if its name ends in `.json` or its text begins
    /// as JSON does, else a fio job file.
    ///
    /// # Errors
    /// The file cannot be read, or is no workload that is understood: see [`fio::parse`] and
    /// [`rtapp::parse`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        Self::load_for(path, None)
    }

    /// Reads the workload at `path`; an rt-app file as that rt-app does, or as the one that the file names.
    ///
    /// # Errors
    /// As [`Workload::load`].
    pub fn load_for(
        path: impl AsRef<Path>,
        rt_app: Option<RtAppVersion>,
    ) -> Result<Self, WorkloadError> {
        let path = path.as_ref();
        let is_json = path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("json"));
        let origin = path.display().to_string();
        match file::read(path, fio::MAX_FILE_BYTES.max(rtapp::MAX_FILE_BYTES)) {
            Ok(text) if is_json || begins_as_json(&text) => {
                Ok(rtapp::parse_for(&text, &origin, rt_app)?.into())
            }
            Ok(text) => Ok(fio::parse(&text, &origin)?.into()),
            Err(e) => Err(FioError::of_file(&origin, e.line, e.message).into()),
        }
    }

    /// A copy that is simulated for at most this long. Each fio job that only time ends has a warm-up, given or default
    /// ([`FioJobFile::with_warm_up`]).
    #[must_use]
    pub fn timed(self, at_most: Option<Nanoseconds>, warm_up: Option<Nanoseconds>) -> Self {
        match self {
            Self::Fio(mut file) => {
                for job in &mut file.jobs {
                    job.at_most = at_most;
                }
                file.with_warm_up(warm_up).into()
            }
            Self::RtApp(mut file) => {
                file.at_most = at_most;
                file.into()
            }
        }
    }

    /// Names of jobs or tasks, in file order.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Fio(file) => file.jobs.iter().map(|j| j.name.as_str()).collect(),
            Self::RtApp(file) => file.tasks.iter().map(|t| t.name.as_str()).collect(),
        }
    }

    /// Accepted lines without the suggested effect.
    pub fn warnings(&self) -> Vec<WorkloadWarning> {
        match self {
            Self::Fio(file) => file
                .warnings
                .iter()
                .map(|w| WorkloadWarning {
                    line: w.line,
                    message: format!("`{}` {}", w.option, w.message),
                })
                .collect(),
            Self::RtApp(file) => file
                .warnings
                .iter()
                .map(|w| WorkloadWarning {
                    line: w.line,
                    message: w.sentence(),
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

impl From<RtAppFile> for Workload {
    fn from(file: RtAppFile) -> Self {
        Self::RtApp(file)
    }
}

/// Job files never begin like JSON.
fn begins_as_json(text: &str) -> bool {
    let text = text.trim_start();
    ["{", "//", "/*"]
        .iter()
        .any(|start| text.starts_with(start))
}
