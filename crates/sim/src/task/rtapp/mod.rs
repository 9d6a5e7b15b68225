//! rt-app threads: run, sleep, timer, suspend and resume, locks, signals. Tasks of given steps are such threads, too.
//!
//! The rules follow rt-app's documentation and source (1.0, and 2025 where `suspend` waits for its own task).
//!
//! - Setup: `program` compiles the tasks of a file into steps with integers, in the time of the CPU that `calibration` finds.
//!   `step_tasks` compiles tasks of given steps, which submit requests and wait for each other by semaphores.
//! - State: `state` has how far each thread is, and what threads wait for each other with.
//! - Events: `events` takes a thread's steps and wakes others, `arrival_events` wakes those who wait for a network, `sync_events` those
//!   whose data another one has synced.
//! - Totals: `result` has the rates, wake-ups and halts of threads.

pub(crate) mod arrival_events;
pub(crate) mod arrivals;
pub(crate) mod calibration;
pub(crate) mod events;
pub(crate) mod program;
pub(crate) mod result;
pub(crate) mod state;
pub(crate) mod step_tasks;
pub(crate) mod sync_events;
