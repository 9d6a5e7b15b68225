//! Recordings of machines at work.
//!
//! - [`recording`]: events on a real machine, in wakepath's own Parquet format.
//! - [`import`]: recordings from other tools' traces.
//! - [`task_io`]: I/O of tasks in a recording.
//! - [`task_steps`]: what all tasks in a recording did, step by step.

mod file_kind;
mod flushes_in_flight;
pub mod import;
pub mod recording;
pub mod task_io;
pub mod task_steps;
