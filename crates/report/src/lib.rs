//! Results in formats that other tools read.
//!
//! [`html`] makes a report page; [`perfetto`] writes a run's timeline.

pub mod html;
pub mod perfetto;
