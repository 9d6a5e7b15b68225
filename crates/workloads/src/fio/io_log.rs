//! The log of I/O that a job replays, and how: fio's `read_iolog` and `replay_...`.

use serde::Serialize;

use crate::block_trace::{JobLog, JobLogOptions};

/// The log that a job replays, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IoLogReplay {
    /// Name of the log as fio takes it, relative to the working directory; several names have colons between them. Default: none.
    pub file: Option<String>,
    /// File to which all requests of the log go; not looked at when simulating. Default: those that the log names.
    pub redirect: Option<String>,
    /// Times and places of the log, as replayed.
    pub options: JobLogOptions,
    /// The log as read; `None`: the job replays no log, or none that can be simulated.
    pub log: Option<Box<JobLog>>,
}

impl IoLogReplay {
    /// Whether the job replays a log.
    pub fn is_given(&self) -> bool {
        self.file.is_some()
    }

    /// The files that fio opens for the log; `None`: they are not known.
    pub(super) fn opened_files(&self) -> Option<Vec<String>> {
        match (&self.redirect, &self.log) {
            (Some(redirect), _) => Some(vec![redirect.clone()]),
            (None, Some(log)) => Some(log.files.clone()),
            (None, None) => None,
        }
    }

    /// Whether a replay writes, or may write since the log could not be read; `None`: the job replays no log.
    pub(super) fn may_write(&self) -> Option<bool> {
        let log = self.log.as_ref();
        self.is_given()
            .then(|| log.is_none_or(|log| log.totals.writes > 0))
    }
}
