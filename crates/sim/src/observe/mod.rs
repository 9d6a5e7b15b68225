//! What a run shows: request latencies and their parts, and every step that an observer is told.

pub(crate) mod attribution;
pub(crate) mod batches;
pub(crate) mod latency;
pub(crate) mod recorder;
mod steps;
