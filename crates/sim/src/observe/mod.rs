//! What a run shows: latencies and their parts, and every step for an observer.

pub(crate) mod attribution;
pub(crate) mod batches;
pub(crate) mod latency;
pub(crate) mod recorder;
mod steps;
