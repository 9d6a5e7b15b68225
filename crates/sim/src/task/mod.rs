//! Tasks: processes from fio jobs, rt-app threads, threads of a server, and kernel threads.
//!
//! All kinds run alike (`events`), submit requests and take them back alike (`requests`), and have one struct
//! (`state`), so that a run queue holds any kind. State for only one kind is in that kind's struct.
//!
//! - `fio`: a file's jobs: when they start, what they issue, at which rate.
//! - `kernel_thread` and `background_timer`: the kernel's background work, as a timer or as a thread; `background` has
//!   its events.
//! - `rtapp`: an rt-app file's threads: programs, locks, timers, and totals.
//! - `server`: a request server: arrivals, the queue, worker threads, disk calls.
//! - `group_commit`: syncs of a log that threads of either share.
//! - `workload`: a run's jobs and threads.
//!
//! fio's rules follow fio 3.33, measured where the manual is silent (`docs/background/model.md`).

mod background;
pub(crate) mod background_timer;
pub(crate) mod events;
pub(crate) mod fio;
pub(crate) mod group_commit;
pub(crate) mod kernel_thread;
mod requests;
pub(crate) mod ring;
pub(crate) mod rtapp;
pub(crate) mod server;
pub(crate) mod state;
pub(crate) mod submitter;
pub(crate) mod workload;
