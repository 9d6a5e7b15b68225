//! fio's options about polling.

use serde::Serialize;

/// A job's options about polling, as the file gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Polling {
    /// Whether completions are asked for as polled ones (fio's `hipri`). Default false.
    pub completions: bool,
    /// Whether a kernel thread polls for submissions (fio's `sqthread_poll`). Default false.
    pub submissions: bool,
    /// The CPU of that kernel thread (fio's `sqthread_poll_cpu`). Default: any.
    pub thread_cpu: Option<u32>,
}
