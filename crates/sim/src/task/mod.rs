//! Tasks: processes of fio jobs, threads of rt-app, and threads of the kernel.
//!
//! All of them wake up, run and sleep alike (`events`), and have one struct (`state`), so that a run queue holds any of them.
//!
//! - `fio`: the jobs of a file: when they start, what they issue, at which rate.
//! - `kernel_thread`: background work of the kernel, as a timer or as a thread.
//! - `rtapp`: the threads of an rt-app file: programs, locks, timers, and what came of them.
//!
//! Rules of fio are those of fio 3.33, measured where its manual is silent (`docs/model.md`).

pub(crate) mod events;
pub(crate) mod fio;
pub(crate) mod kernel_thread;
pub(crate) mod rtapp;
pub(crate) mod state;
