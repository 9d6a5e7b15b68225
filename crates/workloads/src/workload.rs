//! A workload: a fio job file, an rt-app file, a request server, tasks of given steps, or a block trace, which becomes a fio job.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use wakepath_units::Nanoseconds;

use crate::block_trace::{BlockTrace, BlockTraceError, BlockTraceOptions};
use crate::file;
use crate::fio::{self, FioError, FioJobFile, FioSurroundings};
use crate::rtapp::{self, RtAppError, RtAppFile, RtAppVersion};
use crate::server::{self, ServerError, ServerFile};
use crate::tasks::{self, TasksError, TasksFile};

/// A workload: what the machine is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Workload {
    /// Workload of I/O requests: a fio job file, or a block trace as its only job.
    Fio(FioJobFile),
    /// Workload for the scheduler: an rt-app file.
    RtApp(RtAppFile),
    /// Requests to a server, with queueing, CPU work and disk calls.
    Server(Box<ServerFile>),
    /// Tasks that repeat given steps, such as those of a recording.
    Tasks(Box<TasksFile>),
}

/// Why a workload was refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[expect(missing_docs, reason = "each variant is the error it wraps")]
pub enum WorkloadError {
    Fio(#[from] FioError),
    RtApp(#[from] RtAppError),
    BlockTrace(#[from] BlockTraceError),
    Server(#[from] ServerError),
    Tasks(#[from] TasksError),
}

/// A warning about a workload file: the line was accepted, but has another effect than a user may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadWarning {
    /// Line with the accepted option or key, counted from 1.
    pub line: usize,
    /// The actual effect, which differs from what the line suggests.
    pub message: String,
}

impl WorkloadWarning {
    /// Whether the line does nothing here, so that no error can come from it.
    #[must_use]
    pub fn is_about_line_without_effect(&self) -> bool {
        let phrases = ["` is ignored: ", "` has no effect"];
        phrases.iter().any(|phrase| self.message.contains(phrase))
    }
}

impl fmt::Display for WorkloadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

impl Workload {
    /// Reads the workload at `path`: a server or tasks if its name ends in `.toml`, a block trace if it begins as one does, an rt-app
    /// file if its name ends in `.json` or its text begins as JSON does, else a fio job file.
    ///
    /// # Errors
    /// The file cannot be read, or is no workload that is understood: see [`BlockTrace::load`], [`fio::parse`],
    /// [`rtapp::parse`], [`server::parse`] and [`tasks::parse`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        Self::load_with(path, None, &FioSurroundings::default())
    }

    /// Reads the workload at `path`. `version`: the version whose rules an rt-app file follows; `None`: the version that
    /// the file names. `surroundings`: variables and figures that a fio job file may ask for; a server takes its variables, too
    /// ([`ServerFile::with_variables`]).
    ///
    /// # Errors
    /// As [`Workload::load`].
    pub fn load_with(
        path: impl AsRef<Path>,
        version: Option<RtAppVersion>,
        surroundings: &FioSurroundings,
    ) -> Result<Self, WorkloadError> {
        let path = path.as_ref();
        let origin = path.display().to_string();
        if has_extension(path, "toml") {
            return match file::read_bounded_text(path, tasks::MAX_FILE_BYTES) {
                Ok(text) if text.trim().is_empty() => Err(ServerError {
                    origin,
                    line: None,
                    message: "is empty; expected a server (`kind = \"server\"`) or tasks (`kind = \"tasks\"`)"
                        .to_owned(),
                }
                .into()),
                Ok(text) if tasks::is_tasks_file(&text) => Ok(tasks::parse(&text, &origin)?.into()),
                Ok(text) => {
                    let file = server::parse(&text, &origin, path.parent())?;
                    Ok(file
                        .with_variables(&surroundings.variables, &origin)?
                        .into())
                }
                Err(e) => Err(ServerError {
                    origin,
                    line: e.line,
                    message: e.message,
                }
                .into()),
            };
        }
        if let Some(trace) = Self::load_block_trace(path, &BlockTraceOptions::default())? {
            return Ok(trace);
        }
        match file::read_bounded_text(path, fio::MAX_FILE_BYTES.max(rtapp::MAX_FILE_BYTES)) {
            Ok(text) if text.trim().is_empty() => {
                let message = "is empty; expected fio jobs, an rt-app file or a block trace";
                Err(FioError::for_one_problem(&origin, None, message.to_owned()).into())
            }
            Ok(text) if has_extension(path, "json") || begins_as_json_object_or_comment(&text) => {
                Ok(rtapp::parse_overriding_version(&text, &origin, version)?.into())
            }
            Ok(text) => Ok(fio::parse_in_surroundings(&text, &origin, surroundings)?.into()),
            Err(e) => Err(FioError::for_one_problem(&origin, e.line, e.message).into()),
        }
    }

    /// Reads the block trace at `path`, a file or a folder of blktrace's files; `None` if the file is no block trace.
    ///
    /// # Errors
    /// As [`BlockTrace::load`].
    pub fn load_block_trace(
        path: impl AsRef<Path>,
        options: &BlockTraceOptions,
    ) -> Result<Option<Self>, BlockTraceError> {
        // What cannot be opened has the message of the other kinds of workload.
        let trace = match wakepath_files::open_regular_file(path.as_ref()) {
            Ok(_) => BlockTrace::load(path.as_ref(), options)?,
            Err(_) if path.as_ref().is_dir() => BlockTrace::load(path.as_ref(), options)?,
            Err(_) => None,
        };
        Ok(trace.map(|trace| FioJobFile::for_block_trace(trace).into()))
    }

    /// The block trace that the workload replays, if it does.
    pub fn block_trace(&self) -> Option<&BlockTrace> {
        match self {
            Self::Fio(file) => file.jobs.iter().find_map(|job| job.replay.as_deref()),
            Self::RtApp(_) | Self::Server(_) | Self::Tasks(_) => None,
        }
    }

    /// A copy that is simulated for at most `at_most`, a fio job's `ramp_time` likewise ([`FioJob::with_time_limit`]). Each fio job
    /// that only time ends has a warm-up, given or default ([`FioJobFile::with_given_or_default_warm_up`]); a server has the given
    /// one, or its own.
    ///
    /// [`FioJob::with_time_limit`]: fio::FioJob::with_time_limit
    #[must_use]
    pub fn with_time_limit_and_fio_warm_up(
        self,
        at_most: Option<Nanoseconds>,
        fio_warm_up: Option<Nanoseconds>,
    ) -> Self {
        match self {
            Self::Fio(mut file) => {
                if let Some(most) = at_most {
                    let jobs = file.jobs.into_iter();
                    file.jobs = jobs.map(|job| job.with_time_limit(most)).collect();
                }
                file.with_given_or_default_warm_up(fio_warm_up).into()
            }
            Self::RtApp(mut file) => {
                file.at_most = at_most;
                file.into()
            }
            Self::Server(mut file) => {
                file.at_most = at_most;
                file.warm_up = fio_warm_up.unwrap_or(file.warm_up);
                Self::Server(file)
            }
            Self::Tasks(mut file) => {
                file.at_most = at_most;
                Self::Tasks(file)
            }
        }
    }

    /// Names of jobs or tasks, in file order; a server's name.
    pub fn job_or_task_names(&self) -> Vec<&str> {
        match self {
            Self::Fio(file) => file.jobs.iter().map(|j| j.name.as_str()).collect(),
            Self::RtApp(file) => file.tasks.iter().map(|t| t.name.as_str()).collect(),
            Self::Server(file) => vec![&file.name],
            Self::Tasks(file) => file.tasks.iter().map(|t| t.name.as_str()).collect(),
        }
    }

    /// Warnings about accepted lines that have another effect than a user may expect.
    pub fn warnings(&self) -> Vec<WorkloadWarning> {
        if let Some(trace) = self.block_trace() {
            let notes = trace.notes().into_iter();
            return notes
                .map(|note| WorkloadWarning {
                    line: usize::try_from(note.line).unwrap_or(usize::MAX),
                    message: note.sentence,
                })
                .collect();
        }
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
                    message: w.sentence_without_line(),
                })
                .collect(),
            Self::Server(_) | Self::Tasks(_) => Vec::new(),
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

impl From<TasksFile> for Workload {
    fn from(file: TasksFile) -> Self {
        Self::Tasks(Box::new(file))
    }
}

impl From<ServerFile> for Workload {
    fn from(file: ServerFile) -> Self {
        Self::Server(Box::new(file))
    }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

/// A text that begins as JSON is an rt-app file: fio job files never begin so.
fn begins_as_json_object_or_comment(text: &str) -> bool {
    let text = text.trim_start();
    ["{", "//", "/*"]
        .iter()
        .any(|start| text.starts_with(start))
}
