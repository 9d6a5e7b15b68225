//! Recordings of machines at work.
//!
//! - [`recording`]: events on a real machine, in wakepath's own Parquet format.
//! - [`import`]: recordings from other tools' traces.
//! - [`task_io`]: I/O of tasks in a recording.

pub mod import;
pub mod recording;
pub mod task_io;
