//! Recordings of whole machines.
//!
//! - [`recording`]: what happened on a real machine, in wakepath's own Parquet format.
//! - [`import`]: making recordings of what other tools recorded.

pub mod import;
pub mod recording;
