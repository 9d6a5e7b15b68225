//! Results in formats that other tools read.
//!
//! [`perfetto`] writes a run's timeline.

pub mod perfetto;
