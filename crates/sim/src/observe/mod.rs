//! What is seen of a run: its requests' latencies and their parts, and every step for who asks for it.

pub(crate) mod attribution;
pub(crate) mod batches;
pub(crate) mod latency;
pub(crate) mod recorder;
mod steps;
