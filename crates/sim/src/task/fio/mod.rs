//! fio jobs: when they start, what their processes do before and after an I/O, and rates achieved.
//!
//! The rules follow fio 3.33: groups between stonewalls, `startdelay`, `wait_for`, `exitall`, `ramp_time`, batches.
//!
//! - Setup: `setup` compiles a job, `pages` numbers the jobs' files in the page cache, `polling` says who spins.
//! - State: `jobs` has started and ended jobs, `process` is one job's process, `next_request` settles the next
//!   request.
//! - Threads beside a process: `helpers`, and `helper_events` for what they do.
//! - Loads that follow what is measured: `steering`, and `steering_events`.
//! - Verification: `read_back` reads again what a process wrote.
//! - Block traces and logs: `replay` has the next request and its time, `log_clock` the times of a log, `replay_events` what the
//!   process does.
//! - Events: `events` starts and ends jobs, `steps` decides a process's next step, `batches` submits and takes back
//!   requests together.
//! - Totals: `rates` sets requested rates beside achieved rates.

pub(crate) mod batches;
pub(crate) mod events;
mod groups;
mod helper_events;
pub(crate) mod helpers;
pub(crate) mod jobs;
mod log_clock;
mod next_request;
pub(crate) mod pages;
mod period;
pub(crate) mod polling;
pub(crate) mod process;
pub(crate) mod rates;
mod read_back;
pub(crate) mod replay;
mod replay_events;
pub(crate) mod setup;
pub(crate) mod steering;
mod steering_events;
mod steps;
