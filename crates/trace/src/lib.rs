//! Recordings of machines at work.
//!
//! - [`recording`]: events on a real machine, in wakepath's own Parquet format.
//! - [`import`]: recordings from other tools' traces.

pub mod import;
pub mod recording;
