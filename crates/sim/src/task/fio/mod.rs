//! fio jobs: which start when, what their processes do before and after an I/O, and what their rates come to.
//!
//! The rules are those of fio 3.33: groups between stonewalls, `startdelay`, `wait_for`, `exitall`, `ramp_time`, batches.
//!
//! - Setup: `setup` compiles a job, `pages` gives the files of jobs their numbers in the page cache.
//! - State: `jobs` has which jobs have started and ended, `process` is one process of a job, `next_request` settles its next request.
//! - Events: `events` starts and ends jobs, `steps` decides what a process does next, `batches` submits and takes back requests together.
//! - Totals: `rates` sets the rates asked for beside those that were reached.

pub(crate) mod batches;
pub(crate) mod events;
pub(crate) mod jobs;
mod next_request;
pub(crate) mod pages;
pub(crate) mod process;
pub(crate) mod rates;
pub(crate) mod setup;
mod steps;
