//! Tasks: processes of fio jobs, threads of rt-app, and threads of the kernel.
//!
//! All of them run alike (`events`), submit requests and take them back alike (`requests`), and have one
//! struct (`state`), so that a run queue holds any of them. What only one kind has is in the state of its kind.
//!
//! - `fio`: the jobs of a file: when they start, what they issue, at which rate.
//! - `kernel_thread` and `background_timer`: background work of the kernel, as a timer or as a thread; `background` has its events.
//! - `rtapp`: the threads of an rt-app file: programs, locks, timers, and what came of them.
//!
//! Rules of fio are those of fio 3.33, measured where its manual is silent (`docs/model.md`).

mod background;
pub(crate) mod background_timer;
pub(crate) mod events;
pub(crate) mod fio;
pub(crate) mod kernel_thread;
mod requests;
pub(crate) mod rtapp;
pub(crate) mod state;
pub(crate) mod workload;
